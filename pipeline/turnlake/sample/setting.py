"""The world that sample sessions live in: models, projects, the agent's prompt and tools."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from turnlake.sample.shapes import Json
from turnlake.sample.words import Vocabulary


@dataclass(frozen=True)
class Model:
    """A model behind a provider's route. `pace` holds the milliseconds between two tokens, as often as they occur."""

    provider: str
    name: str
    window: int | None
    pace: tuple[int, ...]
    has_cache: bool = True
    effort: str | None = None


@dataclass(frozen=True)
class Prompt:
    """What stands before a conversation: the system prompt, the tools, and their size in tokens."""

    system: str
    tools: tuple[Json, ...]
    tokens: int


_FAST = (11, 12, 12, 12, 12, 12, 12, 13, 13, 13, 14, 16, 21, 34)
_SLOW = (22, 24, 24, 24, 25, 25, 25, 25, 25, 26, 27, 31, 43, 120)
_LOCAL = (41, 44, 46, 48, 50, 52, 57, 66)

PRO = Model("deepseek-official", "deepseek-v4-pro", 1_000_000, _SLOW, effort="high")
FLASH = Model("deepseek-official", "deepseek-v4-flash", 1_000_000, _FAST, effort="high")
ACCOUNT = Model("deepseek-account", "deepseek-v4-pro", 1_000_000, _SLOW, effort="medium")
ROUTED = Model("openrouter", "z-ai/glm-5", 200_000, _FAST)
LOCAL = Model("ollama", "qwen3-coder:30b", None, _LOCAL, has_cache=False)

# As often as each is used.
MODELS = (PRO,) * 8 + (FLASH,) * 8 + (ACCOUNT, ACCOUNT, ROUTED, LOCAL)

PROJECTS = (
    "/home/ana/lantern",
    "/home/ana/lantern/packages/web",
    "/srv/build/harbor-api",
    "/home/mei/\u9879\u76ee/atlas",
    "/home/tom/notes & drafts",
    "/home/bo/work/tidewatch",
    "/Users/ines/code/quarry",
)

GREETING = (
    "You are a coding agent. Work in the project folder, keep to its conventions, and say what you did and what is "
    "left. Read a file before you change it. Look at the exit code of every command. Ask before you delete anything."
)


def _tool(name: str, about: str, **parameters: str) -> Json:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters)[:1]}
    return {"name": name, "description": about, "parameters": schema}


TOOLS = (
    _tool("bash", "Run a shell command.", command="The command.", description="What it is for, in a few words."),
    _tool("read", "Read a text file with line numbers.", path="The file.", offset="First line.", limit="Lines."),
    _tool("edit", "Replace text in a file.", path="The file.", old="Text to replace.", new="Text to put there."),
    _tool("write", "Write a whole file.", path="The file.", content="Its content."),
    _tool("grep", "Search file contents.", pattern="A regular expression.", path="Where to search."),
    _tool("glob", "Find files by name.", pattern="A pattern such as src/**/*.py."),
    _tool("todo_write", "Keep the list of what is to do.", todos="The whole list."),
    _tool("subagent", "Give a task to another agent.", prompt="The task.", description="A short label."),
    _tool("web_search", "Search the web.", query="What to look for."),
    _tool("web_fetch", "Fetch a page.", url="Its address."),
    _tool("job_output", "Output of a command in the background.", job="The job.", wait="Whether to wait."),
    _tool("job_kill", "Stop a command in the background.", job="The job."),
    _tool("ask_user", "Ask the user one question.", question="The question.", options="Answers to choose from."),
    _tool("notebook_edit", "Change a cell of a notebook.", path="The notebook.", cell="The cell.", source="Its text."),
)
CORE_TOOLS = 8


def build_prompt(words: Vocabulary, rng: Random, size: int) -> Prompt:
    """A prompt of about `size` tokens: up to 14 tools, longer descriptions the more room there is."""
    tools = TOOLS if size > 2000 else TOOLS[:CORE_TOOLS]
    told = [_described(tool, words, rng, size // 4 // len(tools)) for tool in tools]
    system = GREETING + "\n\n" + words.prose_text(rng, size * 3 // 4)
    return Prompt(system, tuple(told), size + 40 * len(tools))


def _described(tool: Json, words: Vocabulary, rng: Random, size: int) -> Json:
    return {**tool, "description": f"{tool['description']} {words.prose_text(rng, size)}"}
