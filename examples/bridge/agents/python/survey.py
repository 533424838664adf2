#!/usr/bin/env python3
"""Counts lines and words of files, and speaks protocol 1.1 as it does so.

It says how far it is, hands out each part of its answer as it has it, reads the files
through Airlock (so policy, consent and the record hold for them), asks a question, and
stops when it is told to. The class below is all that the protocol takes: copy it.
"""

import json
import queue
import sys
import threading


class Canceled(Exception):
    """Airlock wants the agent to end: two seconds later it is ended."""


class Airlock:
    """The other side of stdin and stdout, for one thread of the agent's."""

    def __init__(self):
        # A line, not all of stdin: in 1.1 it stays open.
        self.params = json.loads(sys.stdin.readline())
        self.about = self.params.pop("_airlock", {"protocol": "1.0", "features": []})
        self._messages = queue.Queue()
        self._canceled = None
        self._last_id = 0
        if self.about["protocol"] == "1.1":
            # A thread of its own, so that cancel is heard while the agent works.
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in sys.stdin:
            message = json.loads(line)
            if message["type"] == "cancel":
                self._canceled = message.get("reason", "canceled")
            self._messages.put(message)
        self._messages.put(None)  # nobody is there any more

    def _say(self, message):
        # One line, at once: print would keep it back until its buffer is full.
        print(json.dumps(message), flush=True)

    def _answer(self, request):
        self.check()
        self._last_id += 1
        self._say({**request, "id": self._last_id})
        while True:
            message = self._messages.get()
            if message is None or message["type"] == "cancel":
                raise Canceled(self._canceled or "stdin was closed")
            if message.get("id") == self._last_id:
                return message

    def check(self):
        """Raises Canceled where Airlock has said so. Worth a call in every long loop."""
        if self._canceled:
            raise Canceled(self._canceled)

    def progress(self, message, done, total):
        self._say({"type": "progress", "message": message, "done": done, "total": total})

    def partial(self, data):
        self._say({"type": "partial", "data": data})

    def call(self, tool, action, args):
        """Makes a call and gives its result: ok, stdout, stderr, meta."""
        message = self._answer({"type": "call", "tool": tool, "action": action, "args": args})
        if message["type"] == "error":  # the call itself was not right
            return {"ok": False, "stdout": "", "stderr": message["error"], "meta": {}}
        return message

    def ask(self, question, choices, default):
        """Asks the person. Where there is none, the answer is the default."""
        message = self._answer({"type": "ask", "question": question, "choices": choices, "default": default})
        return message.get("answer", default)

    def result(self, answer):
        self._say({"type": "result", "result": answer})


def survey(airlock, files):
    """Yields what is known of each file."""
    for done, path in enumerate(files):
        airlock.check()
        airlock.progress(f"reading {path}", done, len(files))
        result = airlock.call("fs.read_file", "read", {"path": path})
        if result["ok"]:
            found = {"file": path, "lines": result["stdout"].count("\n"), "words": len(result["stdout"].split())}
        else:
            found = {"file": path, "error": result["stderr"]}
        airlock.partial(found)
        yield found


def main():
    airlock = Airlock()
    if airlock.about["protocol"] != "1.1":
        print(json.dumps({"status": "error", "error": 'want protocol: "1.1" in config.yaml'}))
        return
    found = []
    try:
        for one in survey(airlock, airlock.params["files"]):
            found.append(one)
        form = airlock.ask("How shall the survey be put?", ["list", "sum"], "list")
    except Canceled as reason:
        airlock.result({"status": "error", "error": f"ended early: {reason}", "result": found})
        return
    if form == "sum":
        found = {count: sum(one.get(count, 0) for one in found) for count in ("lines", "words")}
    airlock.result({"status": "success", "result": found})


if __name__ == "__main__":
    main()
