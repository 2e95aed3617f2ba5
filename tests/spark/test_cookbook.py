"""What the cookbook shows of Spark, on Spark."""

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "cookbook.md"


def test_the_recipe_for_dataframes_runs_as_it_is_written(spark, tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    helpers = text.partition("```python\n")[2].partition("```")[0]
    (recipe,) = re.findall(r'```python title="On Spark"\n(.*?)```', text, re.DOTALL)
    (printed,) = re.findall(r'```text title="It prints"\n(.*?)```', text, re.DOTALL)
    names = {"state": tmp_path, "spark": spark}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(helpers + recipe, str(PAGE), "exec"), names)
    assert out.getvalue() == printed
    assert not names["job"].is_active
