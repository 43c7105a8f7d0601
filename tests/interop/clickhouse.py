#!/usr/bin/env python3
"""A ClickHouse server of its own takes what `leat export clickhouse` writes, and counts what `leat stats` counts."""
import json
import shutil
import subprocess

from relays import free_ports
from support import LEAT, InteropTest, main, needs, plain_run, program, wait_until

SERVER = shutil.which("clickhouse-server")
CONFIGURATION = """<yandex>
  <logger><level>warning</level><log>{0}/log</log><errorlog>{0}/errors</errorlog></logger>
  <tcp_port>{1}</tcp_port><listen_host>127.0.0.1</listen_host><interserver_http_host>localhost</interserver_http_host>
  <path>{0}/data/</path><tmp_path>{0}/tmp/</tmp_path><user_files_path>{0}/files/</user_files_path>
  <users_config>{0}/users.xml</users_config><default_profile>default</default_profile>
  <default_database>default</default_database><mark_cache_size>5368709120</mark_cache_size>
</yandex>
"""
USERS = """<yandex>
  <profiles><default/></profiles><quotas><default/></quotas>
  <users><default><password/><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default></users>
</yandex>
"""
TABLE = """CREATE TABLE events (time_ns Nullable(Int64), name String, n Nullable(UInt64), thread Nullable(Int64),
                               procname Nullable(String)) ENGINE = Memory"""


@needs(SERVER is not None, "servers")
class ClickHouse(InteropTest):
    def setUp(self):
        super().setUp()
        self.port, = free_ports(1)
        (self.directory / "config.xml").write_text(CONFIGURATION.format(self.directory, self.port))
        (self.directory / "users.xml").write_text(USERS)
        # It ends when the test does.
        self.server = subprocess.Popen([SERVER, f"--config-file={self.directory}/config.xml"],  # pylint: disable=R1732
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.terminate)
        wait_until(lambda: self.server.poll() is not None or self.client("SELECT 1").returncode == 0, "the server answers")

    def client(self, query, **arguments):
        return subprocess.run(["clickhouse-client", f"--port={self.port}", "--host=127.0.0.1", "--query", query],
                              capture_output=True, check=False, **arguments)

    def query(self, query, **arguments):
        result = self.client(query, **arguments)
        self.assertEqual((result.returncode, result.stderr), (0, b""), query)
        return [line.split("\t") for line in result.stdout.decode().splitlines()]

    def test_it_counts_what_leat_stats_counts(self):
        trace = self.record(program("emit"), "40000", "2", name="trace", options=("--ring-size", "16M")).path
        table = self.directory / "table.native"
        exported = plain_run(LEAT, "export", "clickhouse", "--columns", "time_ns,name,n,thread,procname", trace, "-o", table)
        self.assertEqual(exported.returncode, 0, exported.stderr)
        self.query(TABLE)
        with open(table, "rb") as rows:
            self.query("INSERT INTO events FORMAT Native", stdin=rows)
        stats = json.loads(plain_run(LEAT, "stats", "--format=json", trace).stdout)
        self.assertEqual(self.query("SELECT count(), min(time_ns), max(time_ns) FROM events"),
                         [[str(stats[name]) for name in ("events", "begin_ns", "end_ns")]])
        self.assertEqual(dict(self.query("SELECT name, toString(count()) FROM events GROUP BY name")),
                         {row["name"]: str(row["events"]) for row in stats["by_event"]})
        self.assertEqual(self.query("SELECT sum(n), uniq(thread), uniq(procname) FROM events WHERE name = 'test:count'"),
                         [[str(2 * 40000 * 39999 // 2), "2", "1"]])


if __name__ == "__main__":
    main()
