"""Reads a printed table back, by its columns."""

COLUMNS = ("size", "count", "type", "redop", "root")
FIGURES = ("time", "algbw", "busbw", "wrong")


def rows(lines):
    """The rows as dicts; the eight figures under (place, name)."""
    table = []
    for line in lines:
        if line.startswith("#") or not line.strip():
            continue
        words = line.split()
        assert len(words) == len(COLUMNS) + 2 * len(FIGURES), line
        row = dict(zip(COLUMNS, words, strict=False))
        places = (words[5:9], words[9:13])
        for place, figures in zip(("out", "in"), places, strict=True):
            for name, word in zip(FIGURES, figures, strict=True):
                row[place, name] = None if word == "N/A" else float(word)
        table.append(row)
    return table


def footer(lines, name):
    """The value of a line at the end."""
    (line,) = [line for line in lines if line.startswith(f"# {name}")]
    return line.partition(":")[2].strip()
