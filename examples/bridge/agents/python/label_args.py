#!/usr/bin/env python3
"""Suggests labels for an issue. Reads its parameters from the command line alone.

config.yaml says which parameter is which option. Stdin holds all of them as well, but
nobody has to read it.
"""

import argparse
import json
import re
import sys

SIGNS = {
    "bug": {"crash", "crashes", "error", "fails", "broken"},
    "documentation": {"docs", "readme", "typo"},
    "performance": {"slow", "memory", "timeout"},
    "question": {"how", "why", "what"},
}


def suggest(title):
    words = set(re.findall(r"[a-z]+", title.lower()))
    return [label for label, signs in SIGNS.items() if words & signs] or ["triage"]


def main():
    # Without abbreviations, a new option cannot change what an old one means.
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--repo", required=True)
    parser.add_argument("--issue", type=int, required=True)
    parser.add_argument("--title", default="")
    parser.add_argument("--dry-run", action="store_true")  # false is no option at all
    args = parser.parse_args()  # bad use: exit code 2, and the reason on stderr
    print(f"looking at issue {args.issue}", file=sys.stderr)
    return {
        "status": "success",
        "result": {
            "repo": args.repo,
            "issue": args.issue,
            "labels": suggest(args.title),
            "dry_run": args.dry_run,
        },
    }


if __name__ == "__main__":
    print(json.dumps(main()))
