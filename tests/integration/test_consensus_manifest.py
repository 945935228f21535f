"""make_manifest and the consensus trainer's data: CAMELS folders in, the same bytes out, plain errors for bad input."""

import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.camels import SAMPLE, camels_root
from unbroken.data.manifest import make_manifest
from unbroken.errors import CollectionError
from unbroken.trainers.consensus.data import read_rivers
from unbroken.trainers.consensus.skill import skill

PRODUCTS = ["daymet", "maurer", "nldas"]
DATA = {"source": "camels", "products": PRODUCTS, "basins": ["01022500"], "train_end": "2001-12-31"}
RIVER = {"source": "synthetic_river", "basins": 2, "days": 60, "seed": 7}


def nothing() -> None:
    pass


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def basin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of one basin, to be spoiled."""
    root = tmp_path_factory.mktemp("camels")
    for path in camels_root(tmp_path_factory.mktemp("made")).rglob("01022500*.txt"):
        (root / path.parent.name).mkdir(exist_ok=True)
        shutil.copy(path, root / path.parent.name)
    return root


def test_a_real_river(tmp_path: Path) -> None:
    root = camels_root(tmp_path / "made")
    area = int((root / "daymet" / "01022500_lump_cida_forcing_leap.txt").read_text().splitlines()[2])
    first_discharge = float((root / "usgs_streamflow" / "01022500_streamflow_qc.txt").read_text().split()[4])
    path = make_manifest(DATA, tmp_path / "a", root)
    make_manifest(dict(reversed(DATA.items())), tmp_path / "b", root)
    assert files(tmp_path / "a") == files(tmp_path / "b")
    header, row = path.read_text().splitlines()
    assert header == "id,area_m2,file,sha256,train_end"
    assert row.startswith(f"01022500,{area},basin_01022500.csv,")
    daily = (tmp_path / "a" / "basin_01022500.csv").read_text().splitlines()
    assert daily[0] == "date,est_daymet,est_maurer,est_nldas,discharge_mm_day"
    assert (daily[1][:10], daily[-1][:10], len(daily)) == ("2000-01-01", "2002-12-31", 1 + 1096)
    assert daily[1].endswith(f",{first_discharge * 0.028316846592 * 86400 * 1000 / area:.4f}")
    rivers = read_rivers(path, nothing)
    [river] = rivers.basins
    assert rivers.products == ("daymet", "maurer", "nldas")
    assert int(river.train.sum()) == 731
    for product in range(3 if root == SAMPLE else 0):  # a made river follows no bucket
        test = ~river.train
        assert skill(river.estimates[test, product], river.observed[test])["kge"] > 0.3, "the bucket knows the river"


def test_missing_discharge_stays_missing(tmp_path: Path, basin: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(basin, root)
    gauge = root / "usgs_streamflow" / "01022500_streamflow_qc.txt"
    lines = gauge.read_text().splitlines()
    lines[2] = "01022500 2000 01 03  -999.00 M"
    gauge.write_text("\n".join(lines) + "\n")
    make_manifest(DATA, tmp_path / "out", root)
    assert (tmp_path / "out" / "basin_01022500.csv").read_text().splitlines()[3].endswith(",")
    rivers = read_rivers(tmp_path / "out" / "manifest_train.csv", nothing)
    assert math.isnan(rivers.basins[0].observed[2])


def _line(number: int, text: str) -> Any:
    def spoil(path: Path) -> None:
        lines = path.read_text().splitlines()
        lines[number - 1] = text
        path.write_text("\n".join(lines) + "\n")

    return spoil


def _every_day_missing(path: Path) -> None:
    lines = [line.split() for line in path.read_text().splitlines()]
    path.write_text("\n".join(" ".join([*fields[:4], "-999.00", "M"]) for fields in lines) + "\n")


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("daymet/*", Path.unlink, r"daymet/01022500_lump_\*_forcing_leap.txt: no files fit"),
        (
            "daymet/*",
            _line(4, "Year Mnth Day Hr dayl(s) srad(W/m2)"),
            "4: the columns prcp, tmax, tmin are missing",
        ),
        ("maurer/*", _line(7, "2000 13 03 12\t1 1 1 1 1 1 1"), "line 7: 2000 13 03 is no date"),
        ("maurer/*", _line(7, "2000 01 05 12\t1 1 1 1 1 1 1"), "line 7: 2000-01-05 follows 2000-01-02"),
        ("nldas/*", _line(6, "2000 01 02 12\t1 x 1 1 1 1 1"), "line 6: prcp is 'x', not a number"),
        ("nldas/*", _line(6, "2000 01 02 12\t1"), "line 6: has 5 fields, 11 are needed"),
        ("nldas/*", _line(3, "0"), "line 3: the basin area is 0.0 m2"),
        ("usgs_streamflow/*", _line(2, "01022500 2000 01 xx 3.0 A"), "line 2: 2000 01 xx is no date"),
        (
            "usgs_streamflow/*",
            _line(2, "99 2000 01 02 3.0 A"),
            "line 2: is not `01022500 year month day",
        ),
        ("usgs_streamflow/*", _every_day_missing, "has no discharge: all 1096 days are missing"),
    ],
)
def test_bad_input_is_one_sentence_with_file_and_line(
    tmp_path: Path, basin: Path, name: str, spoil: Any, message: str
) -> None:
    root = tmp_path / "root"
    shutil.copytree(basin, root)
    [path] = root.glob(name)
    spoil(path)
    with pytest.raises(CollectionError, match=message) as caught:
        make_manifest(DATA, tmp_path / "out", root)
    assert "\n" not in str(caught.value) and str(root) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": "x"}, "data.source is 'x'; give camels or synthetic_river"),
        ({"dayz": 3}, "unknown key 'dayz'"),
        ({"days": 3}, "data.days is 3; give a whole number of at least 10"),
        ({"basins": True}, "data.basins is True"),
    ],
)
def test_bad_keys(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(CollectionError, match=message):
        make_manifest({**RIVER, **change}, tmp_path)


def test_a_made_up_river(tmp_path: Path) -> None:
    make_manifest(RIVER, tmp_path / "a")
    make_manifest(RIVER, tmp_path / "b")
    assert files(tmp_path / "a") == files(tmp_path / "b")
    make_manifest({**RIVER, "seed": 8}, tmp_path / "c")
    assert files(tmp_path / "a") != files(tmp_path / "c")
    assert len(read_rivers(tmp_path / "a" / "manifest_train.csv", nothing).basins) == 2


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    manifest = make_manifest(RIVER, tmp_path)
    daily = tmp_path / "basin_river01.csv"
    daily.write_text(daily.read_text().replace("2000-01-03", "2000-01-04", 1))
    with pytest.raises(CollectionError, match="make the manifest again"):
        read_rivers(manifest, nothing)


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("data: {source: synthetic_river, basins: 1, days: 30, seed: 1}\n")
    command = [sys.executable, "-m", "unbroken.data.make_manifest", "--data", "c.yaml", "--out", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "out/manifest_train.csv\n")
    (tmp_path / "c.yaml").write_text("data: {source: camels}\n")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("unbroken: data.source is camels")


def test_skill_scores_by_hand() -> None:
    observed = torch.tensor([1.0, 2.0, 3.0, float("nan"), 4.0])
    perfect = skill(observed, observed)
    assert perfect == {"nse": 1.0, "kge": pytest.approx(1.0), "rmse_mm_day": 0.0, "bias": 0.0}
    mean = skill(torch.full((5,), 2.5), observed)
    assert mean["nse"] == pytest.approx(0.0) and math.isnan(mean["kge"])
    double = skill(2 * observed, observed)
    assert double["bias"] == pytest.approx(1.0)
    assert double["kge"] == pytest.approx(1 - math.sqrt(2))
    assert double["rmse_mm_day"] == pytest.approx(math.sqrt(7.5))
