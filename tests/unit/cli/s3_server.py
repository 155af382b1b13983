"""moto's server of S3 with one bucket `preds`, for a Python that has moto; prints its port.

It ends when its standard input is closed, so that it never outlives the tests.
"""

import sys


def main():
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        region_name="us-east-1",
    ).create_bucket(Bucket="preds")
    print(port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
