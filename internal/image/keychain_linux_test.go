package image_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/internal/image"
)

// onPath puts a program on PATH, before all others.
func onPath(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// write makes a file and its folders.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// closed is a registry that only ann is let into, with an image a:1, and its host.
func closed(t *testing.T) (h *hub, host string) {
	t.Helper()
	h = newHub(t, nil)
	h.push(t, "a:1", imageOf(t, layerOf(t, file("a", "1"))))
	h.answer(basic)
	return h, strings.TrimSuffix(h.ref(""), "/")
}

func TestWhereCredentialsAreLookedFor(t *testing.T) {
	h, host := closed(t)
	good, bad := login(host, "secret"), login(host, "wrong")
	// A helper that is asked as Docker asks it, and knows one registry.
	helper := fmt.Sprintf(`[ "$1" = get ] && [ "$(cat)" = %s ] || { echo credentials not found in native keychain; exit 1; }
echo '{"ServerURL":"x","Username":"ann","Secret":"secret"}'`, host)
	entry := `"auth":"` + base64.StdEncoding.EncodeToString([]byte("ann:secret")) + `"`
	for name, prepare := range map[string]func(t *testing.T, dir string){
		"config.json in the home folder": func(t *testing.T, dir string) {
			t.Setenv("DOCKER_CONFIG", "")
			write(t, filepath.Join(dir, ".docker/config.json"), good)
		},
		"the folder of DOCKER_CONFIG goes before the home folder's": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".docker/config.json"), bad)
			write(t, filepath.Join(dir, "other/config.json"), good)
			t.Setenv("DOCKER_CONFIG", filepath.Join(dir, "other"))
		},
		"an entry that is an address": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".docker/config.json"), `{"auths":{"https://`+host+`/v1/":{`+entry+`}}}`)
		},
		"an entry of the repository's goes before its registry's": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".docker/config.json"), `{"auths":{"`+host+`":{"auth":"YTpi"},"`+host+`/a":{`+entry+`}}}`)
		},
		"the registry's helper goes before that of all": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".docker/config.json"), `{"credsStore":"none","credHelpers":{"`+host+`":"test"}}`)
		},
		"a helper of all goes before the file": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".docker/config.json"), `{"credsStore":"test",`+bad[1:])
		},
		"one without a helper among those with one": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".docker/config.json"), `{"credsStore":"none","credHelpers":{"`+host+`":""},`+good[1:])
		},
		"DOCKER_AUTH_CONFIG without a file": func(t *testing.T, _ string) { t.Setenv("DOCKER_AUTH_CONFIG", `{"auths":{"`+host+`":{`+entry+`}}}`) },
		"DOCKER_AUTH_CONFIG before a helper": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".docker/config.json"), `{"credsStore":"none"}`)
			t.Setenv("DOCKER_AUTH_CONFIG", `{"auths":{"`+host+`/a":{`+entry+`}}}`)
		},
		"podman's REGISTRY_AUTH_FILE": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "auth.json"), good)
			t.Setenv("REGISTRY_AUTH_FILE", filepath.Join(dir, "auth.json"))
		},
		"podman's of the session": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "run/containers/auth.json"), good)
			t.Setenv("XDG_RUNTIME_DIR", filepath.Join(dir, "run"))
		},
		"podman's in the home folder": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".config/containers/auth.json"), good)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := home(t, "")
			onPath(t, "docker-credential-test", helper)
			prepare(t, dir)
			wantTree(t, pull(t, newStore(t, nil), h.ref("a:1"), nil).RootDir, "a=1")
		})
	}
	t.Run("a helper that knows nothing of it is no obstacle", func(t *testing.T) {
		home(t, `{"credsStore":"test"}`)
		onPath(t, "docker-credential-test", "echo credentials not found in native keychain; exit 1")
		_, err := newStore(t, nil).Pull(t.Context(), h.ref("a:1"), nil)
		wantError(t, err, nil, "there are no credentials for it")
		h.answer(nil)
		pull(t, newStore(t, nil), h.ref("a:1"), nil)
	})
}

// A lonelyHub answers as Docker Hub does whom it does not know, and notes who asked.
type lonelyHub struct{ asked []string }

func (l *lonelyHub) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if who, password, ok := req.BasicAuth(); ok {
		l.asked = append(l.asked, who+":"+password+" at "+req.URL.Host)
		w.WriteHeader(http.StatusNotFound)
	} else {
		w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
		w.WriteHeader(http.StatusUnauthorized)
	}
	res := w.Result()
	res.Request = req
	return res, nil
}

func TestDockerHubByItsNames(t *testing.T) {
	const good, bad = `{"auth":"YW5uOnNlY3JldA=="}`, `{"auth":"YTpi"}`
	for name, config := range map[string]string{
		"Docker's": `{"auths":{"https://index.docker.io/v1/":` + good + `}}`,
		"podman's": `{"auths":{"docker.io":` + good + `}}`,
		"podman's of a repository": `{"auths":{"docker.io":` + bad + `,"https://index.docker.io/v1/":` + bad +
			`,"docker.io/library/a":` + good + `}}`,
		"Docker's before podman's": `{"auths":{"docker.io":` + bad + `,"https://index.docker.io/v1/":` + good + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			home(t, config)
			hub := &lonelyHub{}
			_, err := newStore(t, &image.Options{Transport: hub}).Pull(t.Context(), "a:1", nil)
			wantError(t, err, nil, "registry docker.io does not have it")
			if len(hub.asked) == 0 || hub.asked[0] != "ann:secret at index.docker.io" {
				t.Errorf("asked by %q", hub.asked)
			}
		})
	}
}

func TestCredentialsThatCannotBeHad(t *testing.T) {
	for _, test := range []struct {
		name, config, helper string
		says                 []string
	}{
		{"a file that ends too soon", `{"auths":`, "", []string{"/.docker/config.json", "DOCKER_CONFIG"}},
		{"an entry that is no credential", `{"auths":{"x":{"auth":"%"}}}`, "", []string{"/.docker/config.json", "DOCKER_CONFIG"}},
		{"a helper that is not there", `{"credsStore":"missing"}`, "", []string{"docker-credential-missing", "install it", "/.docker/config.json"}},
		{"a helper that fails", `{"credsStore":"test"}`, "echo the vault is sealed; exit 3", []string{"docker-credential-test", "the vault is sealed", "/.docker/config.json"}},
		{"a helper that says what nobody asked", `{"credsStore":"test"}`, "echo good morning", []string{"docker-credential-test", "/.docker/config.json"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			home(t, test.config)
			onPath(t, "docker-credential-test", test.helper)
			_, err := newStore(t, nil).Pull(t.Context(), "127.0.0.1:1/a:1", nil)
			wantError(t, err, nil, append(test.says, "credentials for 127.0.0.1:1")...)
		})
	}
	t.Run("a file that may not be read", func(t *testing.T) {
		dir := t.TempDir()
		for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		write(t, filepath.Join(dir, "docker/config.json"), login("127.0.0.1:1", "secret"))
		closed := filepath.Join(dir, "docker")
		if err := os.Chmod(closed, 0o000); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(closed, 0o700) }) // or the test's folder cannot be removed
		cmd := childCommand(t, filepath.Join(dir, "images"), "127.0.0.1:1/a:1")
		cmd.Env = append(cmd.Env, "HOME="+dir, "DOCKER_CONFIG="+filepath.Join(dir, "docker"))
		if os.Geteuid() == 0 { // whom no mode keeps out
			const nobody = 65534
			if err := os.Chown(dir, nobody, nobody); err != nil {
				t.Fatal(err)
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Fatal("it was read, or passed over")
		}
		wantError(t, errors.New(string(out)), nil, "docker/config.json: permission denied", "DOCKER_CONFIG")
	})
}

func TestAHelperEndsWithThePull(t *testing.T) {
	dir := home(t, `{"credsStore":"test"}`)
	note := filepath.Join(dir, "pid")
	onPath(t, "docker-credential-test", "echo $$ >"+note+".new; mv "+note+".new "+note+"; exec sleep 600")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pid := make(chan int, 1)
	go func() {
		for ctx.Err() == nil {
			if text, err := os.ReadFile(note); err == nil {
				n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
				pid <- n
				cancel()
			}
			time.Sleep(time.Millisecond) // until the helper has begun
		}
	}()
	_, err := newStore(t, nil).Pull(ctx, "127.0.0.1:1/a:1", nil)
	wantError(t, err, context.Canceled)
	if err := syscall.Kill(<-pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the helper is still there: %v", err)
	}
}
