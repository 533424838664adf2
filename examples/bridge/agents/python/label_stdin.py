#!/usr/bin/env python3
"""Suggests labels for an issue. Reads its parameters from stdin alone."""

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
    params = json.load(sys.stdin)
    for name in ("repo_name", "issue_number"):
        if name not in params:
            # What an agent says itself is its answer, with exit code 0. Another exit code
            # is for when it could not say anything: it is tried again where retries are set.
            return {"status": "error", "error": f"{name} is missing"}
    # Stdout is for the answer alone; everything else goes to stderr.
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
