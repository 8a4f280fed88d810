# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Debian's own programs, as scripts/bench/ records them in a guest: what they do, and what they
# find ready.  Source it after lib.sh.  Who has dav1d run sets out, the directory with its
# input.ivf, who asks a service sets perf.  A server and its clients are one command, which is the
# script that sources this, called with --workload PROGRAM: such a call ends here.

postgres=/usr/lib/postgresql/15/bin
work=/tmp/work
ffmpeg=(/usr/bin/ffmpeg -nostdin -y -v error -threads 1 -f lavfi -i)

# command PROGRAM: sets argv to some seconds of it, native about half a second.  perf runs
# the program itself where it can: of what a shell had mapped before it became the
# program, perf's unwinder of copies keeps the addresses, and fails.
command()
{
	argv=("$0" --workload "$1")
	case $1 in
	sqlite3)
		argv=(/usr/bin/sqlite3 :memory:
			'create table t(a integer, b text);
			 with recursive c(x) as (select 1 union all select x + 1 from c where x < 25000)
			 insert into t select x, hex(x * 7919 % 10007) from c;
			 create index i on t(b);
			 select count(*), sum(a), b from t group by b order by 2 desc limit 5;') ;;
	git)	argv=(/usr/bin/git -C "$work/repo" log -p --stat -M -C) ;;
	cc1)	argv=("$(gcc -print-prog-name=cc1)" -quiet -O1 -I/usr/include
			-imultiarch x86_64-linux-gnu "$SCRIPTS/bench/stackcmp/stackrec.c" -o /dev/null) ;;
	cc1plus)
		argv=("$(gcc -print-prog-name=cc1plus)" -quiet -O1 -D_GNU_SOURCE
			-imultiarch x86_64-linux-gnu -ftemplate-depth=4000 "$work/deep.cc"
			-o /dev/null) ;;
	python3)
		argv=(/usr/bin/python3 -S -c '
import json, re
for n in range(40):
    data = {str(i): [i, str(i * n), {"x": i % 7}] for i in range(600)}
    text = json.dumps(data, sort_keys=True)
    assert json.loads(text) == data
    re.findall(r"(\d+)\D+(\d+)", text)
    sorted(data.items(), key=lambda kv: kv[1][1])') ;;
	perl)	# shellcheck disable=SC2016 # They are variables of perl.
		argv=(/usr/bin/perl -e '
sub walk { my ($t, $d) = @_; return $d ? walk($t->[0], $d - 1) + walk($t->[1], $d - 1) : 1 }
sub tree { my $d = shift; return $d ? [tree($d - 1), tree($d - 1)] : 0 }
for my $n (1 .. 6) {
    walk(tree(12), 12);
    my %h = map { $_ * 7919 % 10007 => "x$_" } 1 .. 8000;
    my @k = sort { $h{$a} cmp $h{$b} } keys %h;
    my $s = join(",", @k);
    $s =~ s/(\d+),(\d+)/$2:$1/g;
}') ;;
	# Code that is compiled as it runs, and keeps frame pointers: V8 always, Java by its option
	node)	argv=(/usr/bin/node "$work/tree.js") ;;
	java)	argv=(/usr/bin/java -XX:+PreserveFramePointer -cp "$work" Tree) ;;
	g++)	argv=(/usr/bin/g++ -O1 -o "$work/words" "$work/words.cc") ;;
	rustc)	argv=(/usr/bin/rustc -O -o "$work/words-rs" "$work/words.rs") ;;
	openssl)
		argv=(/usr/bin/openssl speed -seconds 1 -bytes 4096 sha1 sha256 sha512 aes-128-cbc
			aes-256-cbc ghash rsa2048 ecdsap256) ;;
	nginx)	argv=(/usr/sbin/nginx -c "$work/nginx.conf") ;;
	gpg)	argv=(/usr/bin/gpg --homedir "$work/gpg" --batch --yes --passphrase x --s2k-count 65011712
			--symmetric --cipher-algo AES256 --compress-algo zlib -o "$work/text.gpg"
			"$work/text") ;;
	xz)	argv=(/usr/bin/xz -k -f -4 "$work/text") ;;
	zstd)	argv=(/usr/bin/zstd -q -b10 -i3 "$work/text") ;;
	ffmpeg-x264)
		argv=("${ffmpeg[@]}" testsrc2=s=192x160:r=25 -frames:v 30 -c:v libx264 -f null -) ;;
	ffmpeg-x265)
		argv=("${ffmpeg[@]}" testsrc2=s=128x96:r=25 -frames:v 10 -c:v libx265 -preset fast
			-x265-params log-level=0:pools=none:frame-threads=1 -f null -) ;;
	ffmpeg-vpx)
		argv=("${ffmpeg[@]}" testsrc2=s=192x160:r=25 -frames:v 20 -c:v libvpx-vp9
			-deadline realtime -cpu-used 6 -f null -) ;;
	ffmpeg-sws)
		argv=("${ffmpeg[@]}" testsrc2=s=320x240:r=25 -frames:v 60 -vf
			"scale=640:360:flags=bicubic,format=rgb24,format=yuv420p" -f null -) ;;
	dav1d)	argv=(/usr/bin/dav1d -q --threads 1 -i "$out/input.ivf" -o /dev/null --muxer null) ;;
	redis-server)
		argv=(/usr/bin/redis-server --port 0 --unixsocket /tmp/redis.sock --save ''
			--dir /tmp) ;;
	lua5.4)
		argv=(/usr/bin/lua5.4 -e '
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local t = {}
for i = 1, 20000 do t[i] = tostring((i * 7919) % 10007) end
table.sort(t)
string.rep("abc", 20000):gsub("b", function(c) return c:upper() end)
print(fib(21))') ;;
	esac
}

# workload PROGRAM: a server and its clients.
workload()
{
	case $1 in
	postgres)
		as_postgres "$postgres/pg_ctl -D /tmp/pg/data -w -t 120 -l /tmp/pg/log \
			-o '-k /tmp -h \"\" -c fsync=off -c jit=off' start"
		as_postgres "pgbench -h /tmp -n -c 2 -T ${PG_SECONDS:-3} -f $work/query.sql bench"
		as_postgres "$postgres/pg_ctl -D /tmp/pg/data -m fast -w stop" ;;
	esac > /dev/null 2>&1
}

# clients PROGRAM: those of a server that perf runs itself.  Each time it is there they
# have their requests, and end it.
clients()
{
	case $1 in
	nginx)
		while :; do
			until curl -sk -o /dev/null https://127.0.0.1:4433/text; do
				sleep 0.2
			done
			for ((i = 0; i < 15; i++)); do
				curl -sk -o /dev/null https://127.0.0.1:4433/text
			done
			/usr/sbin/nginx -c "$work/nginx.conf" -s quit
			while [[ -e $work/nginx.pid ]]; do
				sleep 0.1
			done
		done ;;
	redis-server)
		while :; do
			until redis-cli -s /tmp/redis.sock ping; do
				sleep 0.2
			done
			redis-benchmark -s /tmp/redis.sock -n 2000 -c 10 -q \
				-t set,get,lpush,lrange_300,zadd
			redis-cli -s /tmp/redis.sock shutdown nosave || :
		done ;;
	esac > /dev/null 2>&1
}

as_postgres()
{
	setpriv --reuid=postgres --regid=postgres --init-groups bash -c "$1"
}

write_query()
{
	cat > "$work/query.sql" <<'SQL'
select a.bid, count(*), sum(a.abalance), md5(string_agg(a.aid::text, ','))
  from pgbench_accounts a join pgbench_branches b using (bid)
 where a.aid % 97 = 3 group by a.bid order by 2;
select count(*) from (select aid, row_number() over (order by aid desc) from pgbench_accounts
 where aid between 100 and 2000) s;
SQL
}

# busy_system: two servers in the background, and programs that never end, whose processes it
# leaves in loops
busy_system()
{
	loops=()
	redis-server --port 0 --unixsocket /tmp/redis.sock --save '' --dir /tmp > /dev/null &
	mkdir -p /tmp/pg
	chown postgres /tmp/pg
	as_postgres "$postgres/initdb -D /tmp/pg/data -A trust -N" > /dev/null
	as_postgres "exec $postgres/postgres -D /tmp/pg/data -k /tmp -h ''" 2> /dev/null &
	python3 -c 'while True: sorted(range(5000), key=lambda x: -x)' &
	loops+=($!)
	lua5.4 -e 'while true do tostring(1.5) end' &
	loops+=($!)
	perl -e 'while (1) { my @a = sort map { -$_ } 1 .. 1000 }' &
	loops+=($!)
	while :; do git -C "$LINUX" log -3 --stat; done > /dev/null 2>&1 &
	loops+=($!)
	while :; do g++ -O1 -c -o /dev/null -x c++ - <<< '#include <regex>'; done > /dev/null 2>&1 &
	loops+=($!)
}

# tables_are_there: a service in /tmp/run has looked, and no file waits for its table
tables_are_there()
{
	"${perf:?}" sframe serve --run-dir /tmp/run --status > /tmp/status 2>&1 &&
		awk -F': ' '
			$1 == "tables"		{ tables = $2 }
			$1 == "files that wait"	{ wait = $2 }
			$1 == "scans"		{ scans = $2 }
			END			{ exit !(scans > 0 && tables > 0 && wait == 0) }' \
			/tmp/status
}

# What a workload finds ready
prepare()
{
	case $1 in
	nginx)
		ip link set lo up
		openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/key" -out "$work/cert" \
			-subj /CN=localhost -days 2 > /dev/null 2>&1
		cat > "$work/nginx.conf" <<CONF
daemon off;
master_process off;
pid $work/nginx.pid;
error_log $work/nginx.log;
events { }
http {
	access_log off;
	client_body_temp_path $work/nginx-body;
	proxy_temp_path $work/nginx-proxy;
	fastcgi_temp_path $work/nginx-fastcgi;
	uwsgi_temp_path $work/nginx-uwsgi;
	scgi_temp_path $work/nginx-scgi;
	server {
		listen 127.0.0.1:4433 ssl;
		ssl_certificate $work/cert;
		ssl_certificate_key $work/key;
		root $work;
	}
}
CONF
		;;
	gpg)	mkdir -p "$work/gpg"
		chmod 700 "$work/gpg" ;;
	postgres)
		mkdir -p /tmp/pg
		chown postgres /tmp/pg
		as_postgres "$postgres/initdb -D /tmp/pg/data -A trust -N" > /dev/null
		as_postgres "$postgres/pg_ctl -D /tmp/pg/data -w -t 120 -l /tmp/pg/log \
			-o '-k /tmp -h \"\" -c fsync=off' start" > /dev/null
		as_postgres "psql -h /tmp -c 'create database bench' postgres" > /dev/null
		as_postgres "pgbench -h /tmp -i -q -s 1 bench" > /dev/null 2>&1
		as_postgres "$postgres/pg_ctl -D /tmp/pg/data -m fast -w stop" > /dev/null
		write_query ;;
	esac
}

# prepare_files: the directory $work, with what git, compilers and others are given.  It leaves
# the caller there.
prepare_files()
{
	local i f

	mkdir -p "$work"
	chmod 777 "$work"
	cd "$work" || return
	export HOME=$work GIT_PAGER=cat
	git init -q repo
	git -C repo config user.name nobody
	git -C repo config user.email nobody@localhost
	for ((i = 1; i <= 25; i++)); do
		for f in user found sframe deferred; do
			sed -n "1,$((i * 30))p" "$LINUX/kernel/unwind/$f.c" |
				sed "s/unwind/unwind$((i % 3))/" > "repo/$f$((i % 2)).c"
		done
		git -C repo add .
		git -C repo commit -q -m "number $i"
	done
	# Templates that the compiler instantiates recursively, 700 deep.
	cat > deep.cc <<'CC'
template<int N> struct deep {
	static constexpr long f(long x) { return deep<N - 1>::f(x * 3 + N) ^ N; }
};
template<> struct deep<0> { static constexpr long f(long x) { return x; } };
#include <map>
#include <regex>
#include <string>
long g(long x)
{
	std::map<std::string, std::regex> m;
	m.emplace("x", std::regex("a(b|c)*d"));
	return deep<700>::f(x) + m.size();
}
CC
	# What the compiler, the assembler and the linker take some time for
	cat > words.cc <<'CC'
#include <cstdio>
#include <map>
#include <string>
int main()
{
	std::map<std::string, int> words;
	char word[100];
	while (std::scanf("%99s", word) == 1)
		words[word]++;
	for (auto &[key, number] : words)
		std::printf("%d %s\n", number, key.c_str());
}
CC
	cat > words.rs <<'RS'
use std::collections::BTreeMap;
use std::io::BufRead;

fn main() {
	let mut words: BTreeMap<String, usize> = BTreeMap::new();
	for line in std::io::stdin().lock().lines() {
		for word in line.unwrap().split_whitespace() {
			*words.entry(word.to_string()).or_insert(0) += 1;
		}
	}
	for (word, number) in &words {
		println!("{} {}", word, number);
	}
}
RS
	cat > tree.js <<'JS'
const tree = d => d ? [tree(d - 1), tree(d - 1)] : 1;
const sum = t => t === 1 ? 1 : sum(t[0]) + sum(t[1]);
for (let n = 0; n < (process.argv[2] || 40); n++) {
	const words = {};
	for (let i = 0; i < 4000; i++)
		words["w" + i * 7919 % 1009] = i ^ n;
	const text = JSON.stringify(Object.entries(words).sort((a, b) => a[1] - b[1]));
	JSON.parse(text.replace(/w(\d)(\d*)/g, "$2$1"));
	sum(tree(12));
}
JS
	cat > Tree.java <<'JAVA'
import java.util.*;

public class Tree {
	final Tree left, right;

	Tree(int depth)
	{
		left = depth == 0 ? null : new Tree(depth - 1);
		right = depth == 0 ? null : new Tree(depth - 1);
	}

	long sum()
	{
		return left == null ? 1 : left.sum() + right.sum();
	}

	public static void main(String[] args)
	{
		int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 30;
		long total = 0;
		for (int n = 0; n < rounds; n++) {
			Map<String, Integer> words = new TreeMap<>();
			for (int i = 0; i < 4000; i++)
				words.merge("w" + i * 7919 % 1009, 1, Integer::sum);
			StringBuilder text = new StringBuilder();
			words.entrySet().stream().sorted(Map.Entry.comparingByValue())
				.forEach(e -> text.append(e.getKey()).append(e.getValue()));
			total += text.toString().replaceAll("w([0-9])", "$1").length();
			total += new Tree(12).sum();
		}
		System.out.println(total);
	}
}
JAVA
	! type -P javac > /dev/null || javac Tree.java
	# Text to compress
	for ((i = 0; i < 20; i++)); do
		cat repo/*.c
	done > text
}

if [[ ${1:-} = --workload ]]; then
	workload "$2"
	exit
fi
