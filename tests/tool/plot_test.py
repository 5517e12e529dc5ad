class Plot: pass
