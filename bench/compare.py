#!/usr/bin/env python3
"""Quire beside its peers: the same shapes, in turn, in one run, as a table of ratios.

    python compare.py --quire build/release/tools/quire/quire [--python PEERS/bin/python]
                      [--peer ort,openvino,torch,ggml] [--workload W1,W3] [--case TEXT]
                      [--threads 2] [--seconds 0.5] [--patience 10] [--rounds 1] [--lock FILE] [--json out.json]

For each case of cases.json: `quire bench CASE --json`, then each peer of peers.py on the same case, each
in a process of its own; with --rounds the whole is repeated, and the best median of each side counts.
A peer that is not installed for --python (bench/requirements.txt) is left out.

The table: median microseconds of Quire; which peer and variant is the fastest of those that offer the
case, and its median; how many times faster Quire is, by medians and by minima; the share of the machine's
limit (quire bench --help says which) that Quire reaches by its median; the targets of targets.json and
whether they are met. Rows without a peer are judged by the share, or by how many times longer they take
than another row of Quire's in the same run (tokens to verify: than one token).

Not the same in every row: torch and ggml do not append the new key and value, Quire does; peers allocate
as they please, Quire's benchmark asks for 2 MiB pages. Exits with 1 if a target is missed.
"""
import argparse
import contextlib
import fcntl
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name, key):
    with open(os.path.join(HERE, name)) as f:
        return json.load(f)[key]


@contextlib.contextmanager
def turn(path):
    """Holds a lock that other users of the machine respect, if one is named."""
    if not path:
        yield
        return
    with open(path, "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def run_quire(options, case):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump({"cases": [case]}, f)
        f.flush()
        command = [options.quire, "bench", f.name, "--json", "--mode", "warm", "--threads", str(options.threads),
                   "--seconds", str(options.seconds), "--patience", str(options.patience)]
        if options.precision != "exact":
            command += ["--precision", options.precision]
        if options.isa:
            command += ["--isa", options.isa]
        with turn(options.lock):
            done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{case['case']}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def run_peer(options, case, peer):
    """Lines of peers.py for one case; [] if the peer is not there or does not offer it."""
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as f:
        command = [options.python, os.path.join(HERE, "peers.py"), "--peer", peer, "--case", case["case"], "--exact",
                   "--threads", str(options.threads), "--budget", str(options.seconds), "--patience", str(options.patience),
                   "--json", f.name]
        with turn(options.lock):
            done = subprocess.run(command, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            if line.startswith("skipped") or "FAILED" in line:
                print(f"  {line.strip()}", file=sys.stderr)
        return [json.loads(line) for line in f.read().splitlines()]


class Table:
    def __init__(self):
        self.quire, self.peers, self.machine = {}, {}, None

    def add_quire(self, result):
        self.machine = {k: result[k] for k in ("version", "model", "isa", "threads", "pages")}
        for row in result["measurements"]:
            key = row["case"], row["dtype"]
            if key not in self.quire or row["median_us"] < self.quire[key]["median_us"]:
                self.quire[key] = row

    def add_peer(self, rows):
        for row in rows:
            if row["case"] == "overhead":
                continue
            key = row["case"], row["dtype"]
            best = self.peers.setdefault(key, {})
            name = row["peer"], row["version"], row["variant"]
            if name not in best or row["median_us"] < best[name]["median_us"]:
                best[name] = row

    def rows(self, targets):
        """One record a case and type, in order."""
        wanted = {(t["case"], t["dtype"]): t for t in targets}
        for key, mine in self.quire.items():
            target = wanted.get(key, {})
            record = {"workload": mine["workload"], "case": key[0], "dtype": key[1], "quire": mine, "share": mine["share"],
                      "target_ratio": target.get("ratio"), "target_share": target.get("share")}
            peers = sorted(self.peers.get(key, {}).values(), key=lambda row: row["median_us"])
            if peers:
                record.update(peer=peers[0], ratio=peers[0]["median_us"] / mine["median_us"],
                              ratio_of_minima=min(p["min_us"] for p in peers) / mine["min_us"], peers=peers)
            base = self.quire.get((target.get("over"), target.get("over_dtype", key[1])))
            record["target_times"] = target.get("times") if base else None
            record["times"] = mine["median_us"] / base["median_us"] if base else None
            record["missed"] = [name for name in ("ratio", "share")
                                if record[f"target_{name}"] and record.get(name) is not None
                                and record[name] < record[f"target_{name}"]]
            if record["target_times"] and record["times"] > record["target_times"]:
                record["missed"].append(f"times ({record['times']:.2f})")
            yield record


def verdict(record):
    asked = [f"{record['target_ratio']:g}x" if record["target_ratio"] else "",
             f"{100 * record['target_share']:.0f}%" if record["target_share"] else "",
             f"<={record['target_times']:g} times" if record["target_times"] else ""]
    asked = " ".join(a for a in asked if a)
    if not asked:
        return ""
    if record["missed"]:
        return f"{asked}: missed {', '.join(record['missed'])}"
    return f"{asked}: {'met' if not record['target_ratio'] or 'ratio' in record else 'no peer to compare with'}"


def print_table(records, machine):
    print(f"quire {machine['version']}, {machine['model']}, {machine['isa']}, {machine['threads']} threads, "
          f"2 MiB pages: {machine['pages']}\n")
    print("| workload | case | type | Quire us | best peer | its us | ratio | of minima | share of limit | target |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for r in records:
        peer = r.get("peer")
        name = f"{peer['peer']} {peer['version']} ({peer['variant']})" if peer else "-"
        print(f"| {r['workload']} | {r['case']} | {r['dtype']} | {r['quire']['median_us']:.1f} | {name} "
              f"| {peer['median_us'] if peer else 0:.1f} | {r.get('ratio', 0):.2f} | {r.get('ratio_of_minima', 0):.2f} "
              f"| {100 * r['share']:.0f}% | {verdict(r)} |" if peer else
              f"| {r['workload']} | {r['case']} | {r['dtype']} | {r['quire']['median_us']:.1f} | - | - | - | - "
              f"| {100 * r['share']:.0f}% | {verdict(r)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quire", required=True)
    parser.add_argument("--python", default=sys.executable, help="the Python that has the peers")
    parser.add_argument("--peer", default="ort,openvino,torch,ggml")
    parser.add_argument("--workload", default="")
    parser.add_argument("--case", default="", help="only cases whose name contains this text")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.5, help="of timed calls, for each row")
    parser.add_argument("--patience", type=int, default=0,
                        help="seconds to wait, for each row, until no other program works")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--isa", default="", help="highest instruction set for Quire; peers use what they find")
    parser.add_argument("--precision", default="exact", help="exact or fast, of Quire")
    parser.add_argument("--lock", default="", help="file to lock around each process")
    parser.add_argument("--json", default="", help="file for all rows")
    options = parser.parse_args()
    only = [w for w in options.workload.split(",") if w]
    cases = [c for c in load("cases.json", "cases")
             if (not only or c["workload"] in only) and options.case in c["case"]]
    table = Table()
    for _ in range(options.rounds):
        for case in cases:
            print(f"{case['case']}", file=sys.stderr)
            table.add_quire(run_quire(options, case))
            for peer in options.peer.split(",") if case.get("peers", True) else []:
                if peer:
                    table.add_peer(run_peer(options, case, peer))
    records = list(table.rows(load("targets.json", "targets")))
    print_table(records, table.machine)
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"machine": table.machine, "rows": records}, f, indent=1)
            f.write("\n")
    return 1 if any(r["missed"] for r in records) else 0


if __name__ == "__main__":
    sys.exit(main())
