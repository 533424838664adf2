#!/usr/bin/env python3
"""Takes blanks from the ends of lines in a folder's Markdown files.

It changes files as any program does, and knows nothing of sandboxes. config.yaml has it
run in one: the person sees what it would change, and decides.
"""

import json
import pathlib
import sys


def tidy(path):
    """Mends one file and says how many of its lines were changed."""
    before = path.read_text(encoding="utf-8")
    lines = [line.rstrip() for line in before.splitlines()]
    after = "".join(line + "\n" for line in lines)
    if after == before:
        return 0
    path.write_text(after, encoding="utf-8")
    return sum(old != new for old, new in zip(before.splitlines(), lines)) or 1


def main():
    folder = pathlib.Path(json.load(sys.stdin)["folder"])
    if not folder.is_dir():
        return {"status": "error", "error": f"{folder}: there is no such folder"}
    changed = {}
    for path in sorted(folder.rglob("*.md")):
        try:
            lines = tidy(path)
        except (OSError, UnicodeDecodeError) as error:
            return {"status": "error", "error": f"{path}: {error}", "result": changed}
        if lines:
            changed[str(path)] = lines
    return {"status": "success", "result": changed}


if __name__ == "__main__":
    print(json.dumps(main()))
