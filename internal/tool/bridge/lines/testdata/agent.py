"""An agent that uses all of protocol 1.1, in Python's standard library alone."""
import json
import sys


def say(**message):
    print(json.dumps(message), flush=True)


def hear():
    line = sys.stdin.readline()
    return json.loads(line) if line else {"type": "end"}


params = hear()
say(type="hello", protocol="1.1")
if params.get("wait"):
    say(type="progress", message="waiting")
    told = hear()
    say(type="result", result={"status": "success", "told": told})
    sys.exit(0)
say(type="progress", message="looking", done=1, total=2)
say(type="partial", data={"found": "ä\u2028"})
say(type="call", id="one", tool="fs.read_file", action="read", args={"path": params["path"]})
content = hear()
say(type="ask", id=2, question="Go on?", choices=["yes", "no"], default="no")
answer = hear()
say(type="result", result={
    "status": "success",
    "content": content["stdout"],
    "ids": [content["id"], answer["id"]],
    "answer": answer["answer"],
    "call": params["_airlock"]["call"],
    "note": params["note"],
})
