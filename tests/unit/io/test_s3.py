"""Predictions in a bucket, against a local server that speaks S3.

moto asks for an older python-dateutil than ours, so it is not among the packages of CI:
``pip install --target DIR moto flask flask-cors`` and put DIR at the end of PYTHONPATH.
"""

import io

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from focalibrate.io import PredictionFileError, read_predictions, scan_predictions

boto3 = pytest.importorskip("boto3")
moto_server = pytest.importorskip("moto.server")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def bucket():
    """Serve a bucket `preds` of three parts and one array; yield its logits and URL options."""
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="preds")
    z = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    for i in range(3):
        rows = z[10 * i : 10 * i + 10]
        columns = {f"logit_{name}": rows[:, k] for k, name in enumerate("abc")}
        file = io.BytesIO()
        pq.write_table(pa.table({**columns, "label": list("abcabcabca")}), file)
        client.put_object(Bucket="preds", Key=f"day1/part-{i}.parquet", Body=file.getvalue())
    client.put_object(Bucket="preds", Key="day1/_SUCCESS", Body=b"")
    file = io.BytesIO()
    np.save(file, z)
    client.put_object(Bucket="preds", Key="z.npy", Body=file.getvalue())
    yield z, f"?endpoint_override={host}:{port}&scheme=http&region=us-east-1"
    server.stop()


def test_a_bucket(bucket):
    z, options = bucket
    for path in ("day1", "day1/part-*.parquet", "day1/part-?.parquet"):
        scan = scan_predictions(f"s3://key:secret@preds/{path}{options}", batch_rows=4)
        assert_array_equal(np.concatenate([b.scores for b in scan.batches()]), z)
        assert len(scan.parts) == 3
        assert "secret" not in scan.describe() + "".join(part.name for part in scan.parts)
    one = scan_predictions(f"s3://key:secret@preds/z.npy{options}", input="logits", batch_rows=7)
    assert_array_equal(np.concatenate([b.scores for b in one.batches()]), z)
    assert_array_equal(read_predictions(f"s3://key:secret@preds/day1{options}").scores, z)
    for path in ("preds/none", "nobucket/x.csv"):
        with pytest.raises(PredictionFileError, match="does not exist") as found:
            scan_predictions(f"s3://key:secret@{path}{options}")
        assert "secret" not in str(found.value)
