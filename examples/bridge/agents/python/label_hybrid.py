#!/usr/bin/env python3
"""Suggests labels for an issue. Reads the command line, and stdin for what is not there.

So it can be used by hand as well:

    label_hybrid.py --repo a/b --issue 7 --title "It crashes" </dev/null
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


def parameters():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    # None where an option is not given: then stdin decides. With a default of False,
    # --dry-run could not be told from its absence.
    parser.add_argument("--repo", dest="repo_name")
    parser.add_argument("--issue", dest="issue_number", type=int)
    parser.add_argument("--title")
    parser.add_argument("--dry-run", action="store_true", default=None)
    given = {name: value for name, value in vars(parser.parse_args()).items() if value is not None}
    text = "" if sys.stdin.isatty() else sys.stdin.read()
    return {**(json.loads(text) if text.strip() else {}), **given}


def main():
    params = parameters()
    for name in ("repo_name", "issue_number"):
        if name not in params:
            return {"status": "error", "error": f"{name} is missing"}
    print(f"looking at issue {params['issue_number']}", file=sys.stderr)
    return {
        "status": "success",
        "result": {
            "repo": params["repo_name"],
            "issue": params["issue_number"],
            "labels": suggest(params.get("title", "")),
            "dry_run": params.get("dry_run", True),
        },
    }


if __name__ == "__main__":
    print(json.dumps(main()))
