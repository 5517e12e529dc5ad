"""A GPU in NumPy: it runs what Triton compiled for sm_90, on the CPU's tensors, and checks what a device does not tell.

Each address must lie in a tensor of the launch and be as aligned as its load. No thread may read or write shared memory that a
thread of another warp wrote or read since the last barrier, nor bytes whose copy it has not waited for; and nobody may touch
what products of a warp group read and write before they are waited for, nor may these read what no fence told them of.
"""
