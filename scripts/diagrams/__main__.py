"""Writes every diagram to docs/diagrams."""

from scripts.diagrams.drawn import DIAGRAMS, FOLDER

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, drawn in DIAGRAMS.items():
        (FOLDER / f"{name}.svg").write_text(drawn() + "\n", "utf-8")
