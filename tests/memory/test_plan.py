"""A plan goes through TOML and back unchanged, speaks in one line, and refuses what cannot be."""

import dataclasses
import json
import re
import subprocess
import sys
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elbowroom.memory.plan import (
    Chunk,
    Mesh,
    Offload,
    OptimizerState,
    Plan,
    PlanError,
    Precision,
    Recompute,
)

# The type checks of this suite pick elements at random, inside the strategies too.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

names = st.lists(st.text("abcdefgh_", min_size=1, max_size=8), max_size=4, unique=True)
sizes = st.integers(1, 10_000)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Any plan that contradicts nothing."""
    blocks = draw(st.booleans())
    groups = draw(st.integers(1, 9)) if blocks else 1
    labels = draw(names) if blocks and groups == 1 else []
    saved = draw(st.integers(0, len(labels)))
    queries = draw(st.none() | sizes)
    return Plan(
        precision=Precision(compute=draw(st.sampled_from(["float32", "bfloat16", "float64"]))),
        recompute=Recompute(
            blocks=blocks,
            modules=draw(st.booleans()),
            groups=groups,
            save=tuple(labels[:saved]),
        ),
        chunk=Chunk(
            rows=draw(st.none() | sizes), queries=queries, keys=None if queries is None else draw(st.none() | sizes)
        ),
        offload=Offload(
            activations=tuple(labels[saved:]), optimizer=draw(st.booleans()), parameters=draw(st.booleans())
        ),
        optimizer=OptimizerState(first_moment=draw(st.sampled_from(["float32", "bfloat16"]))),
        mesh=Mesh(data=draw(st.integers(1, 8))),
    )


@given(plans())
def test_toml_and_back_is_the_same_plan(plan):
    assert Plan.from_toml(plan.to_toml()) == plan


@given(plans())
def test_toml_holds_no_section_and_no_key_that_is_null(plan):
    for section, entries in tomllib.loads(plan.to_toml()).items():
        null = getattr(Plan(), section)
        assert entries
        assert all(getattr(null, key) != (tuple(v) if isinstance(v, list) else v) for key, v in entries.items())


@given(plans(), plans())
def test_a_line_is_one_line_and_tells_different_plans_apart(one, other):
    assert "\n" not in str(one)
    assert (str(one) == str(other)) == (one == other)


@given(plans())
def test_equal_plans_have_equal_hashes(plan):
    assert len({plan, Plan.from_dict(plan.to_dict())}) == 1


def test_the_plain_plan_is_empty_in_toml():
    assert Plan().to_toml() == ""
    assert Plan.from_toml("") == Plan()


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        (Plan(), "plain float32"),
        (Plan(recompute=Recompute(modules=True)), "float32 · recompute modules"),
        (Plan(recompute=Recompute(blocks=True, groups=7)), "float32 · recompute blocks in 7 groups"),
        (
            Plan(
                precision=Precision(compute="bfloat16"),
                recompute=Recompute(blocks=True, save=("pair_in", "msa_in")),
                chunk=Chunk(rows=64, queries=256),
                optimizer=OptimizerState(first_moment="bfloat16"),
                mesh=Mesh(data=2),
            ),
            "bfloat16 · recompute blocks saving pair_in, msa_in · chunk 64 rows, 256 queries"
            " · first moment in bfloat16 · 2 devices",
        ),
        (
            Plan(recompute=Recompute(blocks=True), offload=Offload(activations=("msa_in",))),
            "float32 · recompute blocks · offload msa_in to host",
        ),
        (
            Plan(offload=Offload(optimizer=True, parameters=True), optimizer=OptimizerState(rule="lion")),
            "float32 · offload optimizer, parameters to host · lion",
        ),
        (Plan(optimizer=OptimizerState(rule="adam-8bit")), "float32 · adam-8bit"),
    ],
)
def test_a_plan_reads_as_a_sentence(plan, line):
    assert str(plan) == line


def test_a_plan_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'chunk'"):
        Plan().chunk = Chunk(rows=2)  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'rows'"):
        Plan().chunk.rows = 2  # pyright: ignore[reportAttributeAccessIssue]


# What is written, and what the refusal must say: the key, the value, and what would be allowed.
REFUSED = {
    "[memory]\nrows = 1": r"unknown section \[memory\].*precision, recompute, chunk, kernels, offload, optimizer, mesh",
    "chunk = 3": r"\[chunk\] must be a table of keys, found 3",
    "[chunk]\nrow = 4": r"unknown key chunk\.row = 4; the keys of \[chunk\] are rows, queries, keys",
    "[chunk]\nrows = 0": r"chunk\.rows = 0 is not possible; allowed: a whole number from 1",
    "[chunk]\nrows = -5": r"chunk\.rows = -5 is not possible; allowed: a whole number from 1",
    "[chunk]\nrows = 2.5": r"chunk\.rows = 2\.5 is not possible; allowed: a whole number from 1",
    "[chunk]\nrows = true": r"chunk\.rows = True is not possible; allowed: a whole number from 1",
    '[chunk]\nqueries = "many"': r"chunk\.queries = 'many' is not possible; allowed: a whole number from 1",
    '[precision]\ncompute = "float16"': r"precision\.compute = 'float16'.*float32 or bfloat16 or float64",
    "[precision]\ncompute = 16": r"precision\.compute = 16.*float32 or bfloat16 or float64",
    '[optimizer]\nfirst_moment = "int8"': r"optimizer\.first_moment = 'int8'.*float32 or bfloat16",
    '[optimizer]\nrule = "sgd"': r"optimizer\.rule = 'sgd'.*adam or adam-8bit or adafactor or lion",
    '[optimizer]\nrule = "lion"\nfirst_moment = "bfloat16"': (
        r"optimizer\.first_moment = 'bfloat16' does nothing without optimizer\.rule = 'adam'"
    ),
    '[offload]\noptimizer = true\n[optimizer]\nrule = "adam-8bit"': (
        r"offload\.optimizer = true contradicts optimizer\.rule = 'adam-8bit'.*use 'adam' or 'lion'"
    ),
    "[offload]\nparameters = 1": r"offload\.parameters = 1 is not possible; allowed: true or false",
    "[recompute]\nblocks = 1": r"recompute\.blocks = 1 is not possible; allowed: true or false",
    '[recompute]\nmodules = "yes"': r"recompute\.modules = 'yes' is not possible; allowed: true or false",
    "[recompute]\nblocks = true\ngroups = 0": r"recompute\.groups = 0 is not possible; allowed: a whole number from 1",
    '[recompute]\nblocks = true\nsave = "msa_in"': r"recompute\.save = 'msa_in'.*a list of different names",
    '[recompute]\nblocks = true\nsave = ["a", "a"]': r"recompute\.save = \('a', 'a'\).*a list of different names",
    '[recompute]\nblocks = true\nsave = [""]': r"recompute\.save = \(''\,\).*a list of different names",
    "[mesh]\ndata = 0": r"mesh\.data = 0 is not possible; allowed: a whole number from 1",
    "[recompute]\ngroups = 4": r"recompute\.groups = 4 does nothing without recompute\.blocks = true",
    '[recompute]\nsave = ["x"]': r"recompute\.save = \['x'\] does nothing without recompute\.blocks = true",
    '[offload]\nactivations = ["x"]': r"offload\.activations = \['x'\] does nothing without recompute\.blocks = true",
    "[chunk]\nkeys = 8": r"chunk\.keys = 8 does nothing without chunk\.queries",
    '[recompute]\nblocks = true\nsave = ["x"]\n[offload]\nactivations = ["x"]': (
        r"'x' is in recompute\.save and in offload\.activations; keep it in one of them"
    ),
    '[recompute]\nblocks = true\ngroups = 2\nsave = ["x"]': (
        r"recompute\.save = \['x'\] contradicts recompute\.groups = 2.*remove one of the two"
    ),
    "[chunk\n": r"the plan is not valid TOML: .*line 1",
}


REFUSALS = """
import json, sys
from elbowroom.memory.plan import Plan, PlanError
said = {}
for text in json.load(sys.stdin):
    try:
        said[text] = f"accepted: {Plan.from_toml(text)}"
    except PlanError as error:
        said[text] = str(error)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def refusals() -> dict[str, str]:
    """What plans say without this suite's type checks, which would speak first about wrong types."""
    program = [sys.executable, "-c", REFUSALS]
    run = subprocess.run(program, input=json.dumps(list(REFUSED)), capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_is_refused_with_key_value_and_what_is_allowed(text, refusals):
    assert re.search("(?s)" + REFUSED[text], refusals[text]), refusals[text]


def test_errors_name_the_file(tmp_path):
    missing, wrong, binary = tmp_path / "missing.toml", tmp_path / "wrong.toml", tmp_path / "binary.toml"
    with pytest.raises(PlanError, match=r"missing\.toml: cannot be read: No such file"):
        Plan.load(missing)
    wrong.write_text("[chunk]\nrows = 0")
    with pytest.raises(PlanError, match=r"wrong\.toml: chunk\.rows = 0"):
        Plan.load(wrong)
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanError, match=r"binary\.toml: is no text; give the path of a TOML plan"):
        Plan.load(binary)


def test_a_file_gives_its_plan(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text("[recompute]\nblocks = true\n\n[chunk]\nrows = 64\n")
    assert Plan.load(path) == Plan(recompute=Recompute(blocks=True), chunk=Chunk(rows=64))
