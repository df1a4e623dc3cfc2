# Runs commands in a sandbox with the E2B Python SDK; output is shown as it comes.
#
#   pip install e2b
#   export E2B_API_URL=http://127.0.0.1:3000 E2B_SANDBOX_URL=http://127.0.0.1:3000
#   export E2B_API_KEY=e2b_...          # `cargo xtask serve` prints it
#   python 11-commands-stream.py
#
# Expected output:
#   stdout: 1
#   stdout: 2
#   stdout: 3
#   stderr: done counting
#   exit code 0
#   sorted: apple pear
#   exit code 7: the light is off
#   killed: True
#   running commands: 0

from e2b import CommandExitException, Sandbox

with Sandbox.create(timeout=120) as sandbox:
    # In the foreground: callbacks see each line while the command runs.
    result = sandbox.commands.run(
        "for i in 1 2 3; do echo $i; sleep 0.2; done; echo done counting >&2",
        on_stdout=lambda line: print("stdout:", line, end=""),
        on_stderr=lambda line: print("stderr:", line, end=""),
    )
    print("exit code", result.exit_code)

    # In the background, with standard input.
    sort = sandbox.commands.run("sort | xargs", background=True, stdin=True)
    sort.send_stdin("pear\n")
    sort.send_stdin("apple\n")
    sort.close_stdin()
    print("sorted:", sort.wait().stdout, end="")

    # Any exit code but 0 is an exception that carries the output.
    try:
        sandbox.commands.run("echo the light is off >&2; exit 7")
    except CommandExitException as failure:
        print(f"exit code {failure.exit_code}: {failure.stderr}", end="")

    # A command lives until it ends or is killed, whether or not somebody listens.
    sleeper = sandbox.commands.run("sleep 600", background=True)
    sleeper.disconnect()
    print("killed:", sandbox.commands.kill(sleeper.pid))
    print("running commands:", len(sandbox.commands.list()))
