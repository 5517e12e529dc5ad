"""The table that the page of performance opens with: a row for each kind of case, a column for each machine.

A run replaces the column of its own machine and leaves the others as they are.
"""

import re
import statistics
import textwrap

# What a row shows, our case on one thread, and of which limit (the first word of its name) its share is; none: its time.
ROWS = (
    ("Rotation in place, float32, 64 MiB (LIMIT)", "rotate/f32/half/in_place/64MiB/1", "limit"),
    ("Rotation in place, float32, 256 KiB (LIMIT)", "rotate/f32/half/in_place/256KiB/1", "limit"),
    ("Rotation in place, float32 interleaved, 64 MiB (LIMIT)", "rotate/f32/interleaved/in_place/64MiB/1", "limit"),
    ("Rotation in place, bfloat16, 32 MiB (LIMIT)", "rotate/bf16/half/in_place/32MiB/1", "limit"),
    ("Rotation in place, bfloat16, 256 KiB (LIMIT)", "rotate/bf16/half/in_place/256KiB/1", "limit"),
    ("Rotation out of place, float32, 64 MiB (memcpy)", "rotate/f32/half/out_of_place/64MiB/1", "memcpy"),
    ("Rotation out of place, bfloat16, 64 MiB (memcpy)", "rotate/bf16/half/out_of_place/64MiB/1", "memcpy"),
    ("One token, float32", "decode/f32/half/in_place/1_sequences/1", None),
    ("One token, bfloat16", "decode/bf16/half/in_place/1_sequences/1", None),
    ("Table of 131,072 × 64 (NT write)", "fill_table/f32/131072x64/1", "nt_write"),
    ("Attention, all keys, dim 64 (FMA peak)", "attention/full/f32/8x4096x64/1", "fma"),
    ("Attention, all keys, dim 128 (FMA peak)", "attention/full/f32/8x4096x128/1", "fma"),
    ("Attention, causal, dim 64 (FMA peak)", "attention/causal/f32/8x4096x64/1", "fma"),
    ("Attention, causal, dim 128 (FMA peak)", "attention/causal/f32/8x4096x128/1", "fma"),
    ("Attention, ALiBi, dim 64 (without it)", "attention/alibi/f32/8x4096x64/1", "attention"),
    ("Attention, ALiBi, dim 128 (without it)", "attention/alibi/f32/8x4096x128/1", "attention"),
    ("Attention, bfloat16, dim 64 (float32's FMA peak)", "attention/full/bf16/8x4096x64/1", "fma"),
    ("Attention, bfloat16, dim 128 (float32's FMA peak)", "attention/full/bf16/8x4096x128/1", "fma"),
    ("Attention's backward, dim 64 (FMA peak)", "attention_backward/full/f32/8x4096x64/1", "fma"),
    ("Attention's backward, dim 128 (FMA peak)", "attention_backward/full/f32/8x4096x128/1", "fma"),
    ("Attention's backward, bfloat16, dim 64 (float32's FMA peak)", "attention_backward/full/bf16/8x4096x64/1", "fma"),
    ("Attention's backward, bfloat16, dim 128 (float32's FMA peak)", "attention_backward/full/bf16/8x4096x128/1", "fma"),
)
MEASURED = "measured"  # the row below the machines' names
REPETITIONS = 25  # of a run that is good for the page


def target_text(context):
    """Of the kernels and of the limits; a machine may have wider vectors than the one that was forced."""
    forced = f" (forced by {context['forced_by']})" if "forced_by" in context else ""
    return f"target {context['simd_target']}{forced}"


def replace_between(page, marker, write):
    """What stands between a page's two lines that name the marker becomes write(what stood there)."""
    first, last = f"<!-- {marker}: written by scripts/bench --docs -->\n", f"<!-- end of {marker} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(first)
    old, end, after = rest.partition(last)
    if not found or not end:
        raise SystemExit(f"report.py: {page}: must have the lines {first.strip()} and {last}")
    page.write_text(f"{before}{first}\n{write(old.strip()).strip()}\n\n{last}{after}", encoding="utf-8")
    print(f"wrote {page}")


def read_table(text):
    """The machines, and by row the cell of each; the text behind the table is left out."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    if not lines:
        return [], {}
    machines = lines[0][1:]
    return machines, {row[0]: dict(zip(machines, row[1:])) for row in lines[2:]}


def peers_of(cases, name):
    """(how many times faster than it we are, who) of each that was measured, the fastest of them first."""
    found = []
    for case in cases.values():
        if case.peer and case.times and case.name.removeprefix("peer/").partition("/")[2] == name:
            share = case.share(case.bars[0][0])
            if share is not None:
                found.append((1 / share, case.name.split("/")[1]))
    return sorted(found)


def times_text(times):
    return f"{times:.1f}×" if times >= 10 else f"{times:.2f}×"


def cell(cases, name, limit):
    """ "0.97, 15.6× pytorch_rotate_half": the share or the time, and the fastest peer; None if it was not measured."""
    case = cases.get(name)
    if case is None or not case.times:
        return None
    if limit is None:
        words = [f"{case.best:.2f} µs"]
    else:
        shares = [case.share(pattern) for pattern, _ in case.bars if pattern.split("/")[0] == limit]
        words = [f"{share:.2f}" for share in shares[:1] if share is not None]
    words += [f"{times_text(times)} {who}" for times, who in peers_of(cases, name)[:1]]
    return ", ".join(words)


def machine_of(context):
    """What the column of a machine is called: its generation, the processor, and the third cache, which tells apart
    virtual machines that hide their model."""
    vendor = context["machine"].split()[0]
    processor = re.sub(r"\((R|TM|r|tm)\)|\bCPU @.*", "", context["cpu"])
    processor = " ".join(word for word in processor.split() if word != vendor)
    sizes = [cache["size"] for cache in context["caches"] if cache["level"] == 3]
    known = [word for word in (processor, f"L3 {sizes[-1] / 1024 ** 2:g} MiB" if sizes else "") if word]
    return f"{context['machine']} ({', '.join(known)})" if known else context["machine"]


def count_text(count, noun):
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def summary(machine, context, cases, rows, within):
    """What is ahead and what is not, in sentences. within: how far from 1 a ratio may be and say nothing."""
    judged = [row for row in rows if row.verdict]
    missed = [row for row in judged if row.verdict == "MISSED"]
    leads = sorted((round(times, 2), who, name) for name in cases for times, who in peers_of(cases, name))
    behind = [lead for lead in leads if lead[0] * (1 + within) < 1]
    even = [lead for lead in leads[len(behind):] if lead[0] <= 1 + within]
    listed = lambda some: ", ".join(f"`{name}` ({times_text(times)} {who})" for times, who, name in some)
    text = f"On {machine}, {target_text(context)}, "
    if leads:
        text += (f"{len(leads) - len(behind) - len(even)} of {count_text(len(leads), 'comparison')} with a peer are won; "
                 f"the median is {times_text(statistics.median(times for times, _, _ in leads))}. ")
        text += f"Even within {100 * within:.0f} %: {listed(even)}. " if even else ""
        text += f"Lost: {listed(behind)}. " if behind else "None is lost. "
    else:
        text += "no peer was measured. "
    text += f"{len(judged) - len(missed)} of {count_text(len(judged), 'demand')} on shares and times are met"
    worst = sorted((float(row.share) / float(row.demanded), row) for row in missed if row.share)
    if worst:
        text += "; furthest away: " + ", ".join(f"`{row.name}` ({row.share} of {row.limit}, demanded {row.demanded})"
                                               for _, row in worst[:5])
    return textwrap.fill(text + ".", 128, break_long_words=False, break_on_hyphens=False)


def dated(cell, date, today):
    """A cell that this run did not measure keeps the date of its own."""
    return f"{cell} ({date})" if cell and date not in ("", today) and not cell.endswith(")") else cell


def block(old, context, cases, rows, within, partial):
    """The table with this machine's column replaced, and sentences on it, which stay as they are after a run that is not
    whole. rows: of report.py's case_rows; within: of its spread."""
    machines, table = read_table(old)
    own = machine_of(context)
    if own not in machines:
        machines = [own, *machines]
    before = table.setdefault(MEASURED, {}).get(own, "")
    today = table[MEASURED][own] = context["date"][:10]
    for title, name, limit in ROWS:
        cells = table.setdefault(title, {})
        found = cell(cases, name, limit)
        cells[own] = dated(cells.get(own, ""), before, today) if found is None else found
    lines = [f"| | {' | '.join(machines)} |", f"|{' --- |' * (len(machines) + 1)}"]
    for title in (MEASURED, *(title for title, _, _ in ROWS)):
        cells = [table.get(title, {}).get(machine, "") for machine in machines]
        lines.append(re.sub(" +", " ", f"| {title} | {' | '.join(cells)} |"))
    behind_table = re.sub(r"^\|.*\n?", "", old, flags=re.MULTILINE).strip()
    return "\n".join([*lines, "", behind_table if partial else summary(own, context, cases, rows, within)])
