"""The four agents: what each is called, which models it speaks to, how its tools are called."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Agent:
    # The harness, and its template.
    name: str
    # The program in the template.
    program: str
    # Model providers that it can speak to, the usual one first.
    providers: tuple[str, ...]
    # The tool that runs a command, and what it calls the command.
    shell: tuple[str, str]
    # How tools of MCP servers are called.
    served: str

    def run(self, command: str) -> tuple[str, dict]:
        """A call of the tool that runs a command."""
        name, argument = self.shell
        more = {} if self.name == "codex" else {"description": "a command"}
        return name, {argument: command, **more}

    def call(self, tool: str, args: dict, server: str = "mayfly") -> tuple[str, dict]:
        """A call of a tool that an MCP server has. The caller's own are those of `mayfly`."""
        name = self.served.format(server=server, tool=tool)
        if self.name == "grok-build":
            return "use_tool", {"tool_name": name, "tool_input": args}
        return name, args

    def __str__(self) -> str:
        return self.name


AGENTS = (
    Agent(
        "claude-code",
        "claude",
        ("anthropic",),
        ("Bash", "command"),
        "mcp__{server}__{tool}",
    ),
    Agent(
        "codex",
        "codex",
        ("openai-responses",),
        ("exec_command", "cmd"),
        "mcp__{server}/{tool}",
    ),
    Agent(
        "opencode",
        "opencode",
        ("openai", "anthropic", "openai-responses"),
        ("bash", "command"),
        "{server}_{tool}",
    ),
    Agent(
        "grok-build",
        "grok",
        ("openai-responses", "openai", "anthropic"),
        ("run_terminal_command", "command"),
        "{server}__{tool}",
    ),
)
CLAUDE, _, _, GROK = AGENTS
