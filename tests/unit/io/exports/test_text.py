"""Text files other than a plain CSV: separators, decimals, encodings, compression, savetxt."""

import numpy as np
import pytest
from tests.unit.io.exports.tables import (
    NAMES3,
    P3,
    TEXT3,
    Y3,
    Export,
    N,
    csv,
    frame3,
    pd,
    rows,
    savetxt,
    text,
)

BROKEN = ["a, b", 'say "x"', "two\nlines"]


def zstd(frame):
    arrow = pytest.importorskip("pyarrow")

    def write(path):
        with arrow.CompressedOutputStream(str(path), "zstd") as file:
            file.write(frame.to_csv(index=False).encode())

    return write


EXPORTS = {
    "R write.csv": Export(
        "a.csv",
        text(
            rows(
                '"","setosa","versicolor","virginica","truth"',
                [
                    (f'"{i + 1}"', *P3[i], f'"{["setosa", "versicolor", "virginica"][Y3[i]]}"')
                    for i in range(N)
                ],
            )
        ),
        P3,
        Y3,
        ("setosa", "versicolor", "virginica"),
    ),
    "R write.table": Export(
        "a.txt",
        text(
            rows(
                '"setosa" "versicolor" "virginica" "truth"',
                [
                    (f'"{i + 1}"', *P3[i], f'"{["setosa", "versicolor", "virginica"][Y3[i]]}"')
                    for i in range(N)
                ],
                sep=" ",
            )
        ),
        P3,
        Y3,
        ("setosa", "versicolor", "virginica"),
    ),
    "Excel with semicolons and decimal commas": Export(
        "a.csv",
        text(
            "\ufeff"
            + rows(
                "Label;prob_a;prob_b;prob_c",
                [("abc"[Y3[i]], *[str(v).replace(".", ",") for v in P3[i]]) for i in range(N)],
                sep=";",
                end="\r\n",
            )
        ),
        P3,
        Y3,
        ("a", "b", "c"),
    ),
    "UTF-16 with tabs": Export(
        "a.csv",
        lambda path: path.write_text(
            rows("label\tprob_a\tprob_b\tprob_c", [(Y3[i], *P3[i]) for i in range(N)], sep="\t"),
            encoding="utf-16",
        ),
        P3,
        Y3,
        ("a", "b", "c"),
    ),
    "tsv": Export("a.tsv", csv(frame3(label=TEXT3), sep="\t"), P3, Y3, NAMES3),
    "csv.gz": Export("a.csv.gz", csv(frame3(label=TEXT3)), P3, Y3, NAMES3),
    "csv in a zip archive": Export(
        "a.csv.zip", csv(frame3(label=TEXT3), index=False), P3, Y3, NAMES3
    ),
    "percent signs": Export(
        "a.csv",
        text(
            rows(
                "y,a,b,c", [("abc"[Y3[i]], *[f"{v * 100:.12f}%" for v in P3[i]]) for i in range(N)]
            )
        ),
        P3,
        Y3,
        ("a", "b", "c"),
    ),
    "savetxt": Export("p.txt", savetxt(P3), P3),
    "savetxt with commas": Export("p.csv", savetxt(P3, delimiter=","), P3),
    "savetxt with header": Export(
        "p.csv",
        savetxt(np.c_[P3, Y3], delimiter=",", header="a,b,c,label", fmt="%.18g"),
        P3,
        Y3,
        ("a", "b", "c"),
    ),
    "savetxt with labels": Export(
        "p.csv", savetxt(np.c_[P3, Y3], delimiter=","), P3, Y3, options={"label_column": -1}
    ),
    "csv.bz2": Export("a.csv.bz2", csv(frame3(label=TEXT3)), P3, Y3, NAMES3),
    "csv.xz": Export("a.csv.xz", csv(frame3(label=TEXT3)), P3, Y3, NAMES3),
    "csv.zst": Export("a.csv.zst", zstd(frame3(label=TEXT3)), P3, Y3, NAMES3),
    "lines that end in CR": Export(
        "a.csv", csv(frame3(label=TEXT3), lineterminator="\r"), P3, Y3, NAMES3
    ),
    "Excel's sep= line": Export(
        "a.csv",
        text("sep=;\n" + frame3(label=TEXT3).to_csv(sep=";", index=False)),
        P3,
        Y3,
        NAMES3,
    ),
    "decimal commas in quotes": Export(
        "a.csv", csv(frame3(label=TEXT3), decimal=",", index=False), P3, Y3, NAMES3
    ),
    "names of classes over two lines": Export(
        "a.csv",
        csv(pd.DataFrame(P3, columns=BROKEN).assign(label=np.array(BROKEN)[Y3]), index=False),
        P3,
        Y3,
        BROKEN,
    ),
    "no suffix": Export("export", csv(frame3(label=TEXT3)), P3, Y3, NAMES3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTS)
def test_it_is_read_at_the_first_try(tmp_path, name):
    EXPORTS[name].check(tmp_path)
