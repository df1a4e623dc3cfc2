"""The shared functions of the recipes, for sandboxes without curl or jq; see api.sh."""

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

work = sys.argv[2]
with open(f"{work}/args", encoding="utf-8") as file:
    args = json.load(file)


def text(name):
    value = args.get(name)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def given(*names):
    return json.dumps({name: args[name] for name in names if args.get(name) is not None})


def query(*names):
    pairs = [(name, text(name)) for name in names if args.get(name) is not None]
    return "?" + urllib.parse.urlencode(pairs) if pairs else ""


def segment(value):
    return urllib.parse.quote(value, safe="")


def quoted(source):
    with open(source, encoding="utf-8", newline="") as file:
        try:
            return json.dumps(file.read())
        except UnicodeDecodeError:
            sys.exit(1)


def ask(method, path, body=None, kind="application/json"):
    request = urllib.request.Request(os.environ["WORKSPACE_API_URL"] + path, data=body, method=method)
    request.add_header("Authorization", "Bearer " + os.environ["WORKSPACE_API_TOKEN"])
    if body is not None:
        request.add_header("Content-Type", kind)
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.read()
    except urllib.error.HTTPError as refused:
        try:
            said = json.loads(refused.read())
            message = said["message"]
            sys.exit(f"{said['field']}: {message}" if said.get("field") else message)
        except (ValueError, KeyError, TypeError):
            sys.exit(f"the workspace answered {refused.code}")
    except OSError:
        sys.exit("the workspace did not answer")


def call(method, path):
    body = None
    if os.path.exists(f"{work}/body"):
        with open(f"{work}/body", "rb") as file:
            body = file.read()
    return ask(method, path, body).decode() or '{"ok":true}'


def upload(path, source, name):
    boundary = "recipe-" + os.urandom(16).hex()
    # As browsers do it.
    escaped = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    with open(source, "rb") as file:
        content = file.read()
    head = (
        f"--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{escaped}\"\r\n"
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
    return ask("POST", path, body, f"multipart/form-data; boundary={boundary}").decode()


def download(path, target):
    content = ask("GET", path)
    with open(target, "wb") as file:
        file.write(content)
    return ""


def edit(program):
    with open(f"{work}/body", encoding="utf-8") as file:
        names = {"it": json.load(file), "args": args}
    try:
        exec(program, names)
    except Exception as err:
        sys.exit(str(err))
    with open(f"{work}/body", "w", encoding="utf-8") as file:
        json.dump(names["it"], file)
    return ""


known = (text, given, query, segment, quoted, call, upload, download, edit)
sys.stdout.write({one.__name__: one for one in known}[sys.argv[1]](*sys.argv[3:]))
