"""A driver that is right but for one thing: it commits where it is told to abort. Behind it is another driver."""

import json
import subprocess
import sys

with subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
    assert driver.stdin is not None
    assert driver.stdout is not None
    print(driver.stdout.readline(), end="", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if request["verb"] == "abort":
            request["verb"] = "commit"
        print(json.dumps(request), file=driver.stdin, flush=True)
        print(driver.stdout.readline(), end="", flush=True)
