// quire-server serves the HTTP interfaces of OpenAI and Anthropic with models on this machine.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"quire.dev/quire"
	"quire.dev/quire/server"
	"quire.dev/quire/server/local"
	"quire.dev/quire/server/otlp"
)

// Exit statuses.
const (
	exitOK      = 0
	exitFailure = 1 // it could not start or continue
	exitUsage   = 2 // the command line or the configuration is wrong
	exitForced  = 3 // a second signal or the drain timeout ended it
)

const usage = `usage: quire-server --config FILE [--listen HOST:PORT]
       quire-server --model NAME=PATH [--model NAME=PATH]... [--listen HOST:PORT]

Serves the HTTP interfaces of OpenAI and Anthropic with models on this machine.

  --config FILE       configuration in JSON; SIGHUP reloads it
  --model NAME=PATH   serves a model as NAME, loaded at start: a directory, a GGUF file, or ORG/NAME of one
                      that quire pull has brought; may be repeated
  --listen HOST:PORT  overrides the configuration; default 127.0.0.1:8080; port 0 takes a free port
  --check             checks the configuration, its files, and whether its models fit; prints errors, and ends
  --version           prints the version of the library
  --help              prints this text

SIGTERM and SIGINT refuse new requests and wait for running ones; a second signal ends at once.
The log goes to standard error, one JSON object per line, without the text of prompts or answers.
OTEL_EXPORTER_OTLP_ENDPOINT sends spans of the requests to a collector, such as http://localhost:4318.
`

// arguments holds the values of the command line.
type arguments struct {
	configPath string
	models     map[string]server.ModelConfig
	listen     string
	check      bool
	spans      *otlp.Options // nil if no spans are sent
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errors io.Writer) int {
	parsed, done, err := parse(args, out)
	if done {
		return exitOK
	}
	var config *server.Config
	if err == nil {
		config, err = parsed.config()
	}
	log := server.NewLogger(errors)
	if err == nil {
		err = parsed.readSpans(log)
	}
	if err != nil {
		fmt.Fprintln(errors, "quire-server:", err)
		return exitUsage
	}
	if parsed.check {
		return check(config, out, errors)
	}
	followControlGroup(log)
	return serve(parsed, config, log)
}

// check reports what would fail once the server runs.
func check(config *server.Config, out, errors io.Writer) int {
	problems := local.Check(config)
	for _, problem := range problems {
		fmt.Fprintln(errors, "quire-server:", problem)
	}
	if len(problems) > 0 {
		return exitUsage
	}
	fmt.Fprintln(out, "the configuration is valid")
	return exitOK
}

// followControlGroup limits the threads that run Go code to the processors that the control group grants, as Go 1.25
// and later do by themselves.
func followControlGroup(log *server.Logger) {
	granted := server.GrantedProcessors(os.DirFS("/"))
	if granted == 0 || granted >= runtime.NumCPU() {
		return
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(granted)
	}
	log.Info("the control group limits the processors", server.Fields{"processors": granted})
}

// parse reads the command line. done is true if an option printed its text and the program ends.
func parse(args []string, out io.Writer) (parsed *arguments, done bool, err error) {
	parsed = &arguments{models: map[string]server.ModelConfig{}}
	flags := flag.NewFlagSet("quire-server", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&parsed.configPath, "config", "", "")
	flags.StringVar(&parsed.listen, "listen", "", "")
	flags.BoolVar(&parsed.check, "check", false, "")
	version := flags.Bool("version", false, "")
	flags.Func("model", "", parsed.addModel)
	err = flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, usage)
		return parsed, true, nil
	case err != nil:
		return parsed, false, fmt.Errorf("%w; try --help", err)
	case *version:
		fmt.Fprintln(out, "quire-server", quire.LibraryVersion())
		return parsed, true, nil
	case flags.NArg() > 0:
		return parsed, false, fmt.Errorf("%q is not an option; try --help", flags.Arg(0))
	}
	return parsed, false, nil
}

func (a *arguments) addModel(text string) error {
	name, path, found := strings.Cut(text, "=")
	if !found || name == "" || path == "" {
		return fmt.Errorf("must be NAME=PATH")
	}
	if _, twice := a.models[name]; twice {
		return fmt.Errorf("the model %q is given twice", name)
	}
	a.models[name] = server.ModelConfig{Path: path, Preload: true}
	return nil
}

// readSpans reads the options of the span exporter from the environment.
func (a *arguments) readSpans(log *server.Logger) error {
	options, wanted, err := otlp.FromEnvironment(os.Getenv)
	for _, warning := range options.Warnings {
		log.Warn("a variable of OpenTelemetry is not followed", server.Fields{"warning": warning})
	}
	if wanted {
		options.Failed = func(err error) {
			log.Warn("spans cannot be sent and are lost", server.Fields{"error": err.Error()})
		}
		a.spans = &options
	}
	return err
}

// config reads the configuration of the command line; it reads the file again on each call.
func (a *arguments) config() (*server.Config, error) {
	var config *server.Config
	var err error
	switch {
	case a.configPath != "" && len(a.models) > 0:
		return nil, errors.New("--config and --model exclude each other")
	case a.configPath != "":
		config, err = server.ReadConfig(a.configPath)
	case len(a.models) > 0:
		config = &server.Config{Models: a.models}
		err = config.Check()
	default:
		return nil, errors.New("give a configuration with --config or a model with --model; try --help")
	}
	if err == nil && a.listen != "" {
		config.Listen = a.listen
	}
	return config, err
}
