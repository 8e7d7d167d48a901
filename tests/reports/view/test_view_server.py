"""The server of ``foretrace view`` answers only requests with its address and token."""

import http.client
import json
import socket
import threading
from urllib.parse import urlencode

import numpy as np
import pytest
from foretrace.reports.palette import KINDS
from foretrace.reports.script import script_hash
from foretrace.reports.view import tiles
from foretrace.reports.view.opened_runs import OpenedRuns, ViewedRun
from foretrace.reports.view.view_page import parse_lanes, view_pages, view_script
from foretrace.reports.view.view_server import ViewServer
from foretrace.sim.errors import ScenarioError
from op_tables import chain, write_meeting_run, write_run

PS = 1e-12
ROWS = [*chain(300), (1, 0, "collective", None, 5, 900), (1, 7, "copy", "fill", -1, -1)]


class Client:
    """HTTP client that requests like a browser, or like an attacker."""

    def __init__(self, server):
        self.server, self.token = server, server.token

    def ask(self, path, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=60)
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            if value is not None:
                connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer, body

    def get(self, page, **query):
        answer, body = self.ask(f"/{self.token}/{page}?{urlencode(query)}")
        assert answer.status == 200, body
        return body


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    home = tmp_path_factory.mktemp("runs")
    folder = write_run(home / "first" / "abc", base=ROWS, faster=chain(40))
    (folder / "report.html").write_text("<p>the report</p>")
    write_run(home / "second" / "def", base=chain(10))
    opened = OpenedRuns(
        [ViewedRun.of(home / "first" / "abc"), ViewedRun.of(home / "second" / "def")]
    )
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def client(runs):
    with ViewServer(view_pages(runs)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Client(server)
        server.shutdown()


def test_it_listens_on_the_loopback_only(client):
    assert client.server.server_address[0] == "127.0.0.1"
    assert client.server.address == f"http://127.0.0.1:{client.server.server_port}/{client.token}/"
    assert len(client.token) >= 32


@pytest.mark.parametrize(
    "path", ["/", "//", "/bars", "/{other}/", "/{short}/", "/{token}x/", "/%7Btoken%7D/"]
)
def test_without_the_token_every_request_is_refused(client, path):
    named = path.format(other="x" * 32, short=client.token[:-1], token=client.token)
    answer, body = client.ask(named)
    assert (answer.status, body) == (403, b"open the address that foretrace view printed")


def test_every_server_has_a_token_of_its_own(client):
    with ViewServer({}) as other:
        assert other.token != client.token


@pytest.mark.parametrize(
    "host", ["foretrace.example:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}", ""]
)
def test_another_host_name_is_refused(client, host):
    answer, _ = client.ask(f"/{client.token}/", Host=host.format(port=client.server.server_port))
    assert answer.status == 421


def test_two_host_headers_are_refused(client):
    port = client.server.server_port
    with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
        hosts = f"Host: 127.0.0.1:{port}\r\nHost: other\r\n"
        raw.sendall(f"GET /{client.token}/ HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n".encode())
        assert b" 421 " in raw.makefile("rb").readline()


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://foretrace.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"},
     {"Sec_Fetch_Site": "same-site"}],
)  # fmt: skip
def test_a_request_from_another_page_is_refused(client, headers):
    answer, body = client.ask(f"/{client.token}/find?text=a", **headers)
    assert (answer.status, body) == (
        403,
        b"the request comes from another page; open the address that foretrace view printed",
    )


def test_its_own_page_is_answered(client):
    own = f"http://localhost:{client.server.server_port}"
    answer, _ = client.ask(f"/{client.token}/", Origin=own, Sec_Fetch_Site="same-origin")
    assert answer.status == 200


def test_a_link_to_it_may_be_clicked_anywhere_and_shown_in_no_frame(client):
    clicked = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "document"}
    assert client.ask(f"/{client.token}/", **clicked)[0].status == 200
    framed = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "iframe"}
    assert client.ask(f"/{client.token}/", **framed)[0].status == 403


@pytest.mark.parametrize(
    "page",
    ["../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/manifest.json", "/etc/passwd", "report/..",
     "report/2", "ops.base.parquet", "./", "bars/", "report/0/../1"],
)  # fmt: skip
def test_there_is_no_way_to_other_files(client, page):
    answer, body = client.ask(f"/{client.token}/{page}")
    assert (answer.status, body) == (404, b"there is no such page")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_only_get_requests_are_allowed(client, method):
    answer, body = client.ask(f"/{client.token}/", method)
    assert (answer.status, answer.getheader("Allow")) == (405, "GET")
    assert body in (b"it only reads", b"")


@pytest.mark.parametrize("path", ["/", "/{token}/", "/{token}/none", "/{token}/bars?first=1"])
def test_every_answer_is_for_its_own_page_alone(client, path):
    answer, _ = client.ask(path.format(token=client.token))
    policy = answer.getheader("Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    assert answer.getheader("Referrer-Policy") == "no-referrer"
    assert answer.getheader("Cache-Control") == "no-store"
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert answer.getheader("Access-Control-Allow-Origin") is None


@pytest.mark.parametrize(
    ("page", "query", "said"),
    [
        ("bars", {"first": 0}, "last: is not a finite number"),
        ("bars", {"first": "nan", "last": 1, "width": 9}, "first: is not a finite number"),
        ("bars", {"first": "x", "last": 1, "width": 9}, "could not convert"),
        ("bars", {"first": 1, "last": 0, "width": 9}, "first < last"),
        ("bars", {"first": 0, "last": 1, "width": 1e8}, "write first < last and 1 to 20000 pixels"),
        ("bars", {"first": 0, "last": 1, "width": 9, "lanes": "1;2"}, "'1;2' is not a lane"),
        ("bars", {"first": 0, "last": 1, "width": 9, "lanes": "0-999999999"}, "are too many"),
        ("find", {"text": ""}, "1 to 100 characters"),
        ("find", {"text": "a", "show": "0.slower"}, "use one of 0.base, 0.faster, 1.base"),
        ("op", {"lane": 99, "at": 0}, "there is no lane 99"),
        ("", {"show": "../base"}, "no such variant"),
    ],
)
def test_a_bad_query_gets_an_error_message(client, page, query, said):
    answer, body = client.ask(f"/{client.token}/{page}?{urlencode(query)}")
    assert answer.status == 400
    assert said in body.decode()


def test_a_fault_is_reported_and_the_next_request_is_answered(caplog):
    def fail(_):
        raise KeyError("lost")

    with ViewServer({"fail": fail}) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = Client(server)
        for _ in range(2):
            answer, body = client.ask(f"/{client.token}/fail")
            assert (answer.status, body) == (500, b"KeyError('lost')")
        server.shutdown()
    assert "KeyError" in caplog.text


def read_bars(body):
    """Bars of a reply, decoded like view.js does."""
    length = int.from_bytes(body[:4], "little")
    head, at, found = json.loads(body[4 : 4 + length]), 4 + length, {}
    for name, kind in (("start", "<f8"), ("end", "<f8"), ("busy", "<f8"), ("lane", "<i4"),
                       ("name", "<i4"), ("count", "<i4"), ("kind", "u1")):  # fmt: skip
        found[name] = np.frombuffer(body, kind, head["n"], at)
        at += found[name].nbytes
    assert at == len(body)
    assert (4 + length) % 8 == 0
    return head, found


def test_bars_of_what_is_shown_come_as_columns(client):
    query = {"show": "0.base,1.base", "first": 0, "last": 100 * PS, "width": 100, "lanes": "0-9"}
    head, bars = read_bars(client.get("bars", **query))
    assert bars["lane"].tolist() == [0] * 11 + [1] + [2] * 10
    assert (bars["start"][:3] / PS).round(3).tolist() == [0, 10, 20]
    assert (bars["busy"][:2] / PS).round(3).tolist() == [7, 7]
    assert [head["names"][i] for i in bars["name"][:4]] == ["gemm", "norm", "all-reduce", "gemm"]
    assert head["names"][bars["name"][11]] == "collective"
    assert bars["count"].tolist() == [1] * 22
    assert head["coarsest"] == PS


def test_bars_of_some_lanes_are_of_no_others(client):
    query = {"first": 0, "last": 100 * PS, "width": 100, "lanes": "1"}
    _, bars = read_bars(client.get("bars", show="0.base", **query))
    assert bars["lane"].tolist() == [1]


def test_a_search_adds_up_what_is_shown(client):
    told = json.loads(client.get("find", text="GEMM", show="0.base,1.base"))
    assert told["ops"] == 104
    assert told["seconds"] == pytest.approx(104 * 7 * PS)
    assert [round(at["start"] / PS) for at in told["at"][:4]] == [0, 0, 30, 30]
    assert [at["lane"] for at in told["at"][:2]] == [0, 2]


def test_an_op_is_found_by_lane_and_time(client):
    told = json.loads(client.get("op", show="0.base", lane=1, at=100 * PS))
    (op,) = told["ops"]
    assert (told["members"]["of"], told["members"]["at"]) == (0, [])
    assert (op["kind"], op["component"], op["name"]) == ("collective", "fabric", None)
    assert op["end"] == pytest.approx(900 * PS)


@pytest.fixture
def meeting(tmp_path):
    """Pages of a run of three ranks with two collectives."""
    opened = OpenedRuns([ViewedRun.of(write_meeting_run(tmp_path / "runs" / "abc"))])
    with ViewServer(view_pages(opened)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Client(server)
        server.shutdown()
    opened.close()


def test_a_collective_is_drawn_on_every_rank_with_its_wait_before_it(meeting):
    query = {"first": 0, "last": 5000 * PS, "width": 5000, "lanes": "0-9"}
    _, bars = read_bars(meeting.get("bars", **query))
    waits = bars["kind"] == [*KINDS].index("waiting")
    drawn = zip(bars["lane"], bars["start"] / PS, bars["end"] / PS, waits, strict=True)
    drawn = [(lane, round(start), round(end), bool(wait)) for lane, start, end, wait in drawn]
    assert [bar for bar in drawn if bar[0] == 1] == [
        (1, 1000, 3000, True), (1, 3000, 4000, False), (1, 4000, 4500, False)
    ]  # fmt: skip
    assert [bar for bar in drawn if bar[0] == 5] == [(5, 3000, 4000, False), (5, 4000, 4500, False)]


@pytest.mark.parametrize("at", [1500, 3500])  # while it waits, and while it runs
def test_the_ranks_of_a_collective_are_listed_by_arrival(meeting, at):
    told = json.loads(meeting.get("op", lane=3, at=at * PS))
    assert [op["op"] for op in told["ops"]] == [3]
    found = told["members"]
    assert (found["of"], found["last"], found["who"]) == (3, 1, 2)
    assert [round(found[name] / PS) for name in ("first", "most")] == [1000, 2000]
    assert {round(one["end"] / PS) for one in found["at"]} == {4000}
    assert [(one["lane"], one["rank"], round(one["waits"] / PS)) for one in found["at"]] == [
        (1, 0, 2000), (3, 1, 2000), (5, 2, 0)
    ]  # fmt: skip
    assert [one["last"] for one in found["at"]] == [False, False, True]


def test_the_longest_wait_is_over_all_ranks_even_if_not_all_are_listed(meeting, monkeypatch):
    monkeypatch.setattr(tiles, "MOST_MEMBERS", 1)
    found = json.loads(meeting.get("op", lane=3, at=3500 * PS))["members"]
    assert [one["rank"] for one in found["at"]] == [2]
    assert (found["of"], round(found["most"] / PS)) == (3, 2000)


def test_a_collective_without_waiting_is_reported_as_such(meeting):
    found = json.loads(meeting.get("op", lane=5, at=4200 * PS))["members"]
    assert (found["of"], found["last"]) == (3, 3)
    assert {one["waits"] for one in found["at"]} == {0.0}


def test_a_run_says_how_many_waits_and_further_ranks_are_drawn(meeting):
    html = meeting.get("").decode()
    assert "base: all of 5 ops, and 6 waits and further ranks of collectives." in html


def test_the_page_has_what_the_timeline_needs(client):
    html = client.get("", show="0.base,1.base").decode()
    facts = json.loads(html.split('id="view">')[1].split("</script>")[0])
    assert [kind["name"] for kind in facts["kinds"]] == [*KINDS]
    assert facts["span"] == pytest.approx([0, 2997 * PS])
    names = [(row["name"], row["level"], row.get("lane")) for row in facts["rows"]]
    assert names == [
        ("first/abc base", 0, None), ("rank 0", 1, None), ("stream 0", 2, 0), ("rank 1", 1, None),
        ("stream 0", 2, 1), ("second/def base", 0, None), ("rank 0", 1, None), ("stream 0", 2, 2),
    ]  # fmt: skip
    assert (
        "first/abc base: all of 301 ops; 1 never ran or did not end; waits and all ranks of a "
        "collective but the first were not kept: run it again." in facts["said"]
    )
    assert script_hash(view_script()) in html
    assert view_script() in html


def test_variants_are_chosen_by_links(client):
    html = client.get("").decode()
    assert '<a href="?show=0.base,0.faster,1.base">☐ first/abc faster</a>' in html
    assert '<a href="?show=1.base" aria-current="true">☑ first/abc base</a>' in html


def test_the_report_of_a_run_is_there(client):
    assert client.get("report/0") == b"<p>the report</p>"
    html = client.get("").decode()
    assert '<a href="report/0">report of first/abc</a>' in html
    assert "report/1" not in html


def test_a_run_of_many_ranks_is_folded_by_machine(tmp_path):
    rows = [(r, s, "compute", "a", 0, 10) for r in range(24) for s in range(3)]
    opened = OpenedRuns([ViewedRun.of(write_run(tmp_path / "s" / "r", base=rows))])
    from foretrace.reports.view.opened_runs import timeline_facts

    found = timeline_facts(opened, opened.shown(opened.default_variants))["rows"]
    opened.close()
    assert found[:4] == [{"name": "base", "level": 0}, {"name": "node0", "level": 1, "open": True},
                         {"name": "rank 0", "level": 2, "open": False},
                         {"name": "stream 0", "level": 3, "lane": 0}]  # fmt: skip
    assert [row["lane"] for row in found if "lane" in row] == list(range(72))


def test_a_run_without_ops_says_how_to_keep_them(tmp_path):
    with pytest.raises(ScenarioError, match=r"has no rows of ops .*--keep ops$"):
        ViewedRun.of(write_run(tmp_path / "s" / "r"))


def test_lanes_are_written_with_ranges():
    assert parse_lanes("") == []
    assert parse_lanes("3,5-7,9") == [3, 5, 6, 7, 9]
    with pytest.raises(ValueError, match="'-1' is not a lane"):
        parse_lanes("-1")
