package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/configfile"
	"github.com/docker/cli/cli/config/types"
	"github.com/docker/docker-credential-helpers/client"
	"github.com/docker/docker-credential-helpers/credentials"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// helperTime is how long a credential helper may take. It may ask a person for a passphrase.
const helperTime = 2 * time.Minute

// credentials are what there is for a repository: authn.Anonymous where there is nothing. They are looked for where
// authn.DefaultKeychain does, which lets a helper take forever, names no file in its errors, asks the helper of all
// registries before one's own, and overlooks DOCKER_AUTH_CONFIG where there is no file.
func (s *Store) credentials(ctx context.Context, repo name.Repository) (authn.Authenticator, error) {
	if s.opts.Keychain != nil {
		return authn.Resolve(ctx, s.opts.Keychain, repo)
	}
	c, file, err := loadCredentials()
	if err != nil {
		return nil, err
	}
	k := &keychain{c, file}
	registry, isHub := repo.RegistryStr(), repo.RegistryStr() == name.DefaultRegistry
	if isHub {
		registry = authn.DefaultAuthKey
	}
	looks := []func() (types.AuthConfig, error){
		func() (types.AuthConfig, error) { return inVariable(repo.String()) },
		func() (types.AuthConfig, error) { return inVariable(registry) },
		func() (types.AuthConfig, error) { return k.ofOne(ctx, hostOf(repo.Registry)+"/"+repo.RepositoryStr()) },
		func() (types.AuthConfig, error) { return k.ofRegistry(ctx, registry) },
	}
	if isHub { // which podman calls by its short name
		looks = append(looks, func() (types.AuthConfig, error) { return k.ofOne(ctx, hubName) })
	}
	for _, look := range looks {
		found, err := look()
		if err != nil {
			return nil, err
		}
		found.ServerAddress = ""
		if found != (types.AuthConfig{}) {
			return authn.FromConfig(authn.AuthConfig{
				Username: found.Username, Password: found.Password, Auth: found.Auth,
				IdentityToken: found.IdentityToken, RegistryToken: found.RegistryToken,
			}), nil
		}
	}
	return authn.Anonymous, nil
}

// loadCredentials reads the first file there is: Docker's, or one of podman's, which has the same form.
func loadCredentials() (c *configfile.ConfigFile, file string, err error) {
	home, _ := os.UserHomeDir() // without one, its files are none
	below := func(folder string, parts ...string) string {
		if folder == "" {
			return ""
		}
		return filepath.Join(append([]string{folder}, parts...)...)
	}
	for _, path := range []string{
		below(cmp.Or(os.Getenv("DOCKER_CONFIG"), below(home, ".docker")), "config.json"),
		os.Getenv("REGISTRY_AUTH_FILE"),
		below(os.Getenv("XDG_RUNTIME_DIR"), "containers", "auth.json"),
		below(cmp.Or(os.Getenv("XDG_CONFIG_HOME"), below(home, ".config")), "containers", "auth.json"),
	} {
		if path == "" {
			continue
		}
		f, err := openFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil { // whose error has the path in it
			return nil, "", fmt.Errorf("%w; let it be read, or set DOCKER_CONFIG to another folder", err)
		}
		c, err := config.LoadFromReader(f)
		_ = f.Close() // it was read
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w; mend it, or set DOCKER_CONFIG to another folder", path, err)
		}
		return c, path, nil
	}
	return &configfile.ConfigFile{}, "", nil
}

// inVariable looks into DOCKER_AUTH_CONFIG, which goes before files and helpers.
func inVariable(key string) (types.AuthConfig, error) {
	if os.Getenv(configfile.DockerEnvConfigKey) == "" {
		return types.AuthConfig{}, nil
	}
	return (&configfile.ConfigFile{}).GetAuthConfig(key)
}

// A keychain is a file of credentials.
type keychain struct {
	*configfile.ConfigFile
	file string
}

// ofOne finds what is there under one key alone, as podman keeps it for repositories and for Docker Hub; Docker does not.
func (k *keychain) ofOne(ctx context.Context, key string) (types.AuthConfig, error) {
	if helper := k.CredentialHelpers[key]; helper != "" {
		return k.ask(ctx, helper, key)
	}
	return k.AuthConfigs[key], nil
}

// ofRegistry asks the registry's own helper or that of all, and looks into the file where there is none.
func (k *keychain) ofRegistry(ctx context.Context, registry string) (types.AuthConfig, error) {
	helper, own := k.CredentialHelpers[registry]
	if !own {
		helper = k.CredentialsStore
	}
	if helper == "" {
		return k.GetAuthConfig(registry)
	}
	return k.ask(ctx, helper, registry)
}

// ask runs docker-credential-NAME.
func (k *keychain) ask(ctx context.Context, helper, key string) (types.AuthConfig, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, helperTime, fmt.Errorf("it gave no answer for %s", helperTime))
	defer cancel()
	program := "docker-credential-" + helper
	if _, err := exec.LookPath(program); err != nil {
		return types.AuthConfig{}, fmt.Errorf("%s is not on PATH; install it, or take %q out of %s", program, helper, k.file)
	}
	found, err := client.Get(func(args ...string) client.Program {
		cmd := exec.CommandContext(ctx, program, args...) // in our process group: it may ask on the terminal
		cmd.Stderr = os.Stderr
		cmd.WaitDelay = time.Second
		return &helperProgram{cmd}
	}, key)
	switch {
	case credentials.IsErrCredentialsNotFound(err):
		return types.AuthConfig{}, nil
	case err != nil && ctx.Err() != nil:
		return types.AuthConfig{}, fmt.Errorf("%s, which %s names: %w", program, k.file, context.Cause(ctx))
	case err != nil:
		return types.AuthConfig{}, fmt.Errorf("%s, which %s names: %w", program, k.file, err)
	case found.Username == "<token>": // the helpers' protocol has no other place for one
		return types.AuthConfig{IdentityToken: found.Secret}, nil
	}
	return types.AuthConfig{Username: found.Username, Password: found.Secret}, nil
}

// A helperProgram is one that ends with a context.
type helperProgram struct{ cmd *exec.Cmd }

func (p *helperProgram) Output() ([]byte, error) { return p.cmd.Output() }
func (p *helperProgram) Input(in io.Reader)      { p.cmd.Stdin = in }
