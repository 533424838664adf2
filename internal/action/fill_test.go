package action_test

import (
	"context"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"airlock/internal/action"
)

func TestPlaceholders(t *testing.T) {
	for _, tt := range []struct {
		name, command, want string // want: joined by commas
	}{
		{"a number to say", `kill -9 <PID>`, "<PID>"},
		{"several, each once, in order", `cp <SRC> <DST> && rm <SRC>`, "<SRC>,<DST>"},
		{"words in lower case", `tail -f <file name>`, "<file name>"},
		{"the usual lower-case forms", `cp <source> <destination>`, "<source>,<destination>"},
		{"one before an argument", `kubectl logs <pod-name> -n <namespace>`, "<pod-name>,<namespace>"},
		{"parts of a word", `ssh <user>@<host>`, "<user>,<host>"},
		{"parts of an address", `curl http://<host>:8080/<path>`, "<host>,<path>"},
		{"a file's name but its end", `gzip <file>.txt`, "<file>"},
		{"a path", `less <path/to/file>`, "<path/to/file>"},
		{"before a pipe", `cat <file>|sort`, "<file>"},
		{"before a list goes on", `kill <pid>; kill <pid>&& echo done`, "<pid>"},
		{"in a substitution", `echo "$(cat <FILE>)"`, "<FILE>"},
		{"in a subshell", `(cd <dir> && ls)`, "<dir>"},
		{"a token between double quotes", `curl -H "Authorization: Bearer <YOUR_TOKEN>" https://x`, "<YOUR_TOKEN>"},
		{"a token between single quotes", `curl -H 'Authorization: Bearer <your-token>' https://x`, "<your-token>"},
		{"a URL between quotes", `psql "postgres://<user>:<password>@<host>:5432/<db>"`, "<user>,<password>,<host>,<db>"},
		{"all that is between the quotes", `git commit -m "<commit message>"; git tag -m '<message>' v1`, "<commit message>,<message>"},
		{"braces", `docker run --name {{name}} {{ image }}`, "{{name}},{{ image }}"},
		{"in what another shell is given", `ssh web1 "kill <PID>" 2>&1 | tee log`, "<PID>"},
		{"in a script behind -c", `sudo bash -lc 'cat <FILE> | wc -l'`, "<FILE>"},
		{"exported", `export TOKEN=<TOKEN> OTHER="<OTHER>"`, "<TOKEN>,<OTHER>"},
		{"behind a comparison", `[[ -f a && -f b ]] && kill <PID>`, "<PID>"},
		{"behind a joined line", "kill -9 \\\n  <PID>", "<PID>"},
		{"where a file is tested", `[ -f <FILE> ] && test -d "<DIR>"`, "<FILE>,<DIR>"},
		{"in a pipeline to a remote command", `cat <FILE> | ssh web1 'cat > x'`, "<FILE>"},
		{"an argument of a script's file", `sh deploy.sh "<TARGET>"`, "<TARGET>"},
		{"with a redirection behind it", `cat <FILE> > out.txt`, "<FILE>"},
		{"with an end that is a placeholder too", `sort in.txt > <OUTPUT_FILE>`, "<OUTPUT_FILE>"},
		{"behind a here-document", "cat <<EOF >a\n<NO>\nEOF\nmv a <NAME>", "<NAME>"},
		{"in a loop", `for p in <PIDS>; do kill $p; done`, "<PIDS>"},
		{"in an assignment", `TOKEN=<TOKEN> ./run`, "<TOKEN>"},
		{"where a default is", `echo ${x:-y} <NAME>`, "<NAME>"},
		{"a sed command's file", `sed -i 's/a/b/' <FILE>`, "<FILE>"},

		{"a redirection from and to", `cat <in >out`, ""},
		{"the same without spaces", `cat <in>out`, ""},
		{"the same with one space", `sort <input> sorted`, ""},
		{"upper-case files", `wc -l <README>count`, ""},
		{"to a device", `cmd <data>/dev/null; cmd <DATA>/dev/null`, ""},
		{"to a descriptor", `cmd <data>&2`, ""},
		{"from a file, and another descriptor's", `cmd <in 2>err; cmd <IN 2>/dev/null`, ""},
		{"appending", `cmd <in>>out`, ""},
		{"letters and signs", `a<b>c; x<Y>z`, ""},
		{"files with dots", `cmp <a.txt>b.txt`, ""},
		{"a here-document", "cat <<EOF\n<PID> {{name}} $(kill <PID>)\nEOF", ""},
		{"a quoted here-document", "cat <<'EOF' >x\n<YOUR_TOKEN>\nEOF\n", ""},
		{"a here-document with tabs", "cat <<-EOF\n\t<PID>\n\tEOF\necho", ""},
		{"two here-documents", "cat <<A <<B\n<X1>\nA\n<X2>\nB\necho", ""},
		{"a here-string", `cat <<<"$x" >out`, ""},
		{"process substitution", `diff <(sort a) <(sort b)`, ""},
		{"a comment", `ls # kill <PID>`, ""},
		{"arithmetic", `echo $((a<b)) $((A<B || C>D)); ((i<N)) && echo`, ""},
		{"a comparison", `[[ $a < $b && $c > $d ]]; [ 1 \< 2 ]`, ""},
		{"escaped", `echo \<PID\> "\<PID>" \<PID>`, ""},
		{"markup in quotes", `echo "<h1>Hi</h1><br>" '<DIV><P>' "<img src=x>" "<title>"`, ""},
		{"elements with an end", `echo '<NAME>x</NAME>' "<item>x</item>"`, ""},
		{"what a program says", `perf stat true 2>&1 | egrep -q "<not supported>"`, ""},
		{"generics", `grep -r 'List<String>' . ; grep "Map<K,V>" x; grep 'Vec<T>' ; echo "ARRAY<STRING>"`, ""},
		{"words that grep finds", `grep '\<word\>' f; grep "\<WORD\>" f; grep '<version>' pom.xml`, ""},
		{"sed's patterns", `sed 's/<OLD>/<NEW>/g' f; sed -e "s|<A_B>|x|" f`, ""},
		{"awk's and perl's code", `awk '$1 <MAX> 2' f; perl -ne 'print while <STDIN> <FH1>'; python3 -c 'print("<NAME>")'`, ""},
		{"templates", `docker ps --format '{{.Names}}'; docker inspect -f '{{range .Mounts}}{{name}}{{end}}' x`, ""},
		{"a workflow's expression", `echo '${{ secrets.TOKEN }} ${{token}}'`, ""},
		{"behind a dollar, where it would be a variable", `echo $<NAME> "$<NAME>"`, ""},
		{"names whose subscripts bash runs", `declare "<NAME>"; let <NAME>; read <NAME>; test -v <NAME>; [[ <N1> -gt 3 ]]; a[<N1>]=x; b["<N1>"]=1; printf -v <NAME> x`, ""},
		{"subscripts in a list", `a=([<N1>]=x ["<N1>"]=x ['<N1>']=x [{{n}}]=x [1+<N1>]=x); declare -a b=([<N1>]=x)`, ""},
		{"all of a comparison", `[[ -f a && <N1> -gt 3 ]]; [[ ( <N1> -gt 3 ) ]]; [[ (( <N1> -gt 3 )) ]]; : $([[ ( <N1> -gt 3 ) ]])`, ""},
		{"behind a dollar on the line before", "echo $\\\n<NAME> \"$\\\n<NAME>\"", ""},
		{"in a comment behind a joined line", "ls \\\n# it's\nkill '<PID>", ""},
		{"old arithmetic", `echo $[1+<N1>]`, ""},
		{"in what xargs puts into a script", `echo "<NAME>" | xargs -I{} sh -c 'rm {}'`, ""},
		{"in what a shell in a group is fed", `echo "rm <NAME>" | { sh; }; echo "rm <NAME>" | (sh)`, ""},
		{"in keys that a shell will see", `tmux send-keys -t x 'kill <PID>' Enter; trap 'kill <PID>' EXIT; alias k='kill <PID>'`, ""},
		{"between backquotes", "echo `cat <FILE>`", ""},
		{"in a script that is put together", `sh -c 'echo '"<NAME>"; eval "echo '" <NAME> "'"`, ""},
		{"in a script that a shell is fed", `echo "kill <PID>" | sh; echo "kill <PID>" | ssh host`, ""},
		{"in a here-string for a shell", `bash <<< "kill <PID>"`, ""},
		{"in expansions", `echo ${x:-<NAME>} "${x:-<NAME>}"`, ""},
		{"quotes that do not end", `kill <PID> "`, ""},
		{"a case in a substitution, whose end shells find differently", `echo "$(case x in x) echo "<PID>";; esac)"`, ""},
		{"a mail address", `git commit --author "Ann <ann@example.org>"`, ""},
		{"nothing", ``, ""},
		{"a bound on how long a name is", `kill <` + strings.Repeat("A", 65) + `>`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(action.Placeholders(tt.command), ","); got != tt.want {
				t.Errorf("Placeholders(%q) = %q, want %q", tt.command, got, tt.want)
			}
		})
	}
}

// hostile are values that are one word only if they are quoted rightly.
var hostile = []string{
	"plain", "", " ", "a b", "-rf", "$(touch owned)", "`touch owned`", "'; touch owned; '", `"; touch owned; "`,
	`\`, `\'`, `\"`, `'\''`, `$HOME`, `${HOME}`, "a\nb", "\ntouch owned\n", "x\ny; touch owned #", "*", "?", "[a]", "~", "~root",
	"a;b", "a&b", "a|b", ">owned", "<owned", "2", "&", "!", "!!", "#", "{a,b}", "{1..3}", "(touch owned)", "$'\\x27'", "é\t\u2028",
	"if", "done", "}", "EOF", "<PID>", "{{name}}", "%s", "\\n", "\x7f\x01", `"$(touch owned)"`, `'$(touch owned)'`, `'"'"'; touch owned; '"'"'`,
}

func TestFillMakesOneWord(t *testing.T) {
	dir := t.TempDir() // empty: * finds nothing, and nothing may appear
	for _, tt := range []struct{ name, command, before, after string }{
		{"outside quotes", `printf '%s.' <V1>`, "", "."},
		{"a part of a word", `printf '%s.' a-<V1>-b`, "a-", "-b."},
		{"between double quotes", `printf '%s.' "x <V1> y"`, "x ", " y."},
		{"between single quotes", `printf '%s.' 'x <V1> y'`, "x ", " y."},
		{"beside quotes", `printf '%s.' "x"<V1>'y'`, "x", "y."},
		{"in a substitution between double quotes", `printf '%s.' "$(printf '%s|' <V1>)"`, "", "|."},
		{"in quotes in a substitution in quotes", `printf '%s.' "$(printf '%s|' "a<_V>b<V_1>c")"`, "a<_V>b", "c|."},
		{"in an assignment", `v=<V1>; printf '%s.' "$v"`, "", "."},
		{"before a redirection", `printf '%s.' <V1>>&1`, "", "."},
		{"behind a comment and a here-document", "cat <<X >/dev/null # '\n'\nX\nprintf '%s.' <V1>", "", "."},
		{"in a script", `sh -c 'printf "%s." <V1>'`, "", "."},
		{"in a script's quotes", `sh -c 'printf %s. "x <V1>"'`, "x ", "."},
		{"in a script between double quotes", `sh -c "printf '%s.' <V1>"`, "", "."},
		{"in a script's script", `sh -c "sh -c 'printf %s. <V1>'"`, "", "."},
		{"behind a script", `sh -c 'printf %s. "$1"' x "<V1>"`, "", "."},
		{"in words that are joined", `eval printf %s. <V1>`, "", "."},
		{"in a line that is evaluated", `eval 'printf "%s." <V1>'`, "", "."},
		{"with braces", `printf '%s.' {{v1}} "{{v1}}" '{{v1}}'`, "", "."},
		{"behind an escaped quote", `printf '%s.' \'<V1>\"`, "'", `".`},
		{"behind what is expanded", `printf '%s.' "${x:-}$((1+1))$(echo a)<V1>"`, "2a", "."},
		{"in a subshell and a group", `( { printf '%s.' <V1>; } )`, "", "."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			names := action.Placeholders(tt.command)
			if len(names) == 0 {
				t.Fatalf("Placeholders(%q) finds none", tt.command)
			}
			for _, v := range hostile {
				want := tt.before + v + tt.after
				if strings.Count(tt.command, "{{v1}}") == 3 {
					want += want + want
				}
				filled := action.Fill(tt.command, map[string]string{names[0]: v})
				for _, shell := range shells(t) {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					cmd := exec.CommandContext(ctx, shell, "-c", filled)
					cmd.Dir = dir
					out, err := cmd.CombinedOutput()
					cancel()
					// A substitution strips line ends: of what is before its own mark there are none.
					if err != nil || string(out) != want {
						t.Errorf("%s -c %q: %q, %v; want %q", shell, filled, out, err, want)
					}
				}
			}
			if out, err := exec.Command("ls", "-A", dir).Output(); err != nil || len(out) > 0 {
				t.Errorf("files appeared: %s %v", out, err)
			}
		})
	}
}

// shells are those that there are, sh always.
func shells(t *testing.T) []string {
	found := []string{"sh"}
	for _, name := range found {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("no sh here to ask")
		}
	}
	if _, err := exec.LookPath("bash"); err == nil {
		found = append(found, "bash")
	}
	return found
}

func TestFillLeavesTheRest(t *testing.T) {
	for _, tt := range []struct {
		name, command string
		values        map[string]string
		want          string
	}{
		{"what has no value stays", `cp <SRC> <DST>`, map[string]string{"<SRC>": "a"}, `cp a <DST>`},
		{"what is no placeholder stays", `cat <in >out # <SRC>`, map[string]string{"<SRC>": "x", "<in >": "y"}, `cat <in >out # <SRC>`},
		{"a value is not filled again", `cp <SRC> <DST>`, map[string]string{"<SRC>": "<DST>", "<DST>": "b"}, `cp '<DST>' b`},
		{"a plain value needs no quotes", `kill -9 <PID>`, map[string]string{"<PID>": "4711"}, `kill -9 4711`},
		{"a keyword needs them", `<CMD> true`, map[string]string{"<CMD>": "if"}, `'if' true`},
		{"a number before a redirection needs them", `echo <N1>>out`, map[string]string{"<N1>": "2"}, `echo '2'>out`},
		{"so does a part of one", `<A1>0>out`, map[string]string{"<A1>": "2"}, `'2'0>out`},
		{"a variable's name needs them", `<A1>=x y`, map[string]string{"<A1>": "PATH"}, `'PATH'=x y`},
		{"NUL is left out", `kill <PID>`, map[string]string{"<PID>": "1\x002"}, `kill 12`},
		{"no values", `kill <PID>`, nil, `kill <PID>`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := action.Fill(tt.command, tt.values); got != tt.want {
				t.Errorf("Fill = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestALongCommandFullOfThemIsReadSoon(t *testing.T) {
	for _, piece := range []string{`<PID> `, `"<PID>" `, `"<PID>`, `{{a}} `, `$(<A1>`, `"<a <b `, `sh -c "<A1>" `, `${a:-"`, "<<A <<B\n", `"$(`} {
		command := strings.Repeat(piece, action.MaxCommand/len(piece))
		start := time.Now()
		action.Placeholders(command)
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%q again and again: %v", piece, took)
		}
	}
}

// FuzzFill has a second opinion, another shell parser: a value changes nothing of what a
// command is made of.
func FuzzFill(f *testing.F) {
	for _, command := range []string{
		`kill <PID>`, `echo "a $(b <C1> 'd') <E1>"`, "cat <<X\n<A1>\nX\nrm <B1>", `sh -c 'x "<A1>"'`, `eval a <B1>`, `echo $'\'' <A1>`,
		`a=(<B1>) c <in>d`, `((a<B1)); <C1>`, `ssh h "kill <PID>" >l 2>&1`, `echo {{a}} "{{b}}"`, "`a <B1>` <C1>", `case a in b) <C1>;; esac`,
		`echo "a$$(b <C1> 'd') <E1>"`, `x ${a:-"b"} <C1> # <D1>`, `[[ a<B1 ]] || <C1>`, "a \\\n<B1>", `f() { <A1>; }`,
	} {
		for _, v := range []string{"'; x; '", "a b", "$(x)", "\n\\"} {
			f.Add(command, v)
		}
	}
	f.Add(`<A1> x`, "let")
	f.Add(`export <A1>; time <B1>; a=([<C1>]=b)`, "-p")
	f.Fuzz(func(t *testing.T, command, value string) {
		value = strings.ToValidUTF8(strings.ReplaceAll(value, "\x00", ""), "?") // NUL is left out; the other parser insists on UTF-8
		names := action.Placeholders(command)
		if same := action.Fill(command, nil); same != command {
			t.Fatalf("Fill(%q) without values = %q", command, same)
		}
		// Another value of its kind, one that is quoted or one that is not, sets the measure.
		plain := action.Fill("<A1>", map[string]string{"<A1>": value}) == value
		other := "x y"
		if plain {
			other = "x"
		}
		harmless, hostile := make(map[string]string), make(map[string]string)
		for _, n := range names {
			if !strings.Contains(command, n) {
				t.Fatalf("Placeholders(%q) = %q", command, names)
			}
			harmless[n], hostile[n] = other, value
		}
		for _, lang := range []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX} {
			want, err := shape(action.Fill(command, harmless), lang)
			if err != nil {
				continue // no command to begin with
			}
			filled := action.Fill(command, hostile)
			got, err := shape(filled, lang)
			if plain && (err != nil || clauses(got) || clauses(want)) {
				continue // such as a function that cannot have this name
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("Fill(%q, %q) = %q: %v, %v; want %v", command, value, filled, got, err, want)
			}
		}
	})
}

// clauses reports whether the other parser took a builtin for more than a word, and so what follows it for options,
// names and numbers. A plain word can be any of those; to a shell all of them are words.
func clauses(shape map[string]int) bool {
	return shape["*syntax.DeclClause"]+shape["*syntax.LetClause"]+shape["*syntax.TimeClause"] > 0
}

// shape counts what a command is made of.
func shape(command string, lang syntax.LangVariant) (map[string]int, error) {
	file, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(command), "")
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int)
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted, nil:
		default:
			counts[reflect.TypeOf(n).String()]++
		}
		return true
	})
	return counts, nil
}
