// Reads the declarations of docker/ with the parsers that Docker itself uses, and prints what they mean as JSON.
//
//	program compose FILE       the project as `docker compose config` has it
//	program dockerfile FILE    stages and their steps, the resulting image, and the warnings of `docker build --check`
//	program ignored FILE PATH… which of the paths a .dockerignore keeps out of the build
//	program yaml FILE          any YAML file
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	"github.com/opencontainers/go-digest"
	"go.yaml.in/yaml/v4"
)

var readers = map[string]func(path string, more []string) (any, error){
	"compose":    compose,
	"dockerfile": dockerfile,
	"ignored":    ignored,
	"yaml":       anyYAML,
}

func main() {
	if len(os.Args) < 3 || readers[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: program compose|dockerfile|ignored|yaml FILE [PATH ...]")
		os.Exit(2)
	}
	read, err := readers[os.Args[1]](os.Args[2], os.Args[3:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(read)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func compose(path string, _ []string) (any, error) {
	options, err := cli.NewProjectOptions([]string{path})
	if err != nil {
		return nil, err
	}
	return options.LoadProject(context.Background())
}

type step struct {
	Kind    string   `json:"kind"`
	Run     []string `json:"run,omitempty"`
	Shell   bool     `json:"shell,omitempty"`
	Mounts  []mount  `json:"mounts,omitempty"`
	From    string   `json:"from,omitempty"`
	Sources []string `json:"sources,omitempty"`
	Target  string   `json:"target,omitempty"`
}

type mount struct {
	Type   string `json:"type"`
	From   string `json:"from"`
	Source string `json:"source"`
	Target string `json:"target"`
}

type stage struct {
	Name  string `json:"name"`
	Base  string `json:"base"`
	Steps []step `json:"steps"`
}

func dockerfile(path string, _ []string) (any, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	stages, err := stagesOf(text)
	if err != nil {
		return nil, err
	}
	warnings := []string{}
	options := dockerfile2llb.ConvertOpt{
		MetaResolver: emptyImages{},
		Warn: func(rule, description, _, message string, _ []parser.Range) {
			warnings = append(warnings, fmt.Sprintf("%s: %s (%s)", rule, message, description))
		},
	}
	built, err := dockerfile2llb.Dockerfile2LLB(context.Background(), text, options)
	if err != nil {
		return nil, err
	}
	return map[string]any{"stages": stages, "image": built.Image.Config, "warnings": warnings}, nil
}

func stagesOf(text []byte) ([]stage, error) {
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	found, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return nil, err
	}
	stages := []stage{}
	for _, each := range found {
		steps := []step{}
		for _, command := range each.Commands {
			made, err := stepOf(command)
			if err != nil {
				return nil, err
			}
			steps = append(steps, made)
		}
		stages = append(stages, stage{Name: each.Name, Base: each.BaseName, Steps: steps})
	}
	return stages, nil
}

func stepOf(command instructions.Command) (step, error) {
	made := step{Kind: command.Name()}
	switch command := command.(type) {
	case *instructions.CopyCommand:
		made.From, made.Sources, made.Target = command.From, command.SourcePaths, command.DestPath
	case *instructions.WorkdirCommand:
		made.Target = command.Path
	case *instructions.RunCommand:
		if err := command.Expand(func(word string) (string, error) { return word, nil }); err != nil {
			return made, err
		}
		made.Run, made.Shell = command.CmdLine, command.PrependShell
		for _, each := range instructions.GetMounts(command) {
			made.Mounts = append(made.Mounts, mount{string(each.Type), each.From, each.Source, each.Target})
		}
	}
	return made, nil
}

// Base images as if they had no configuration: none is fetched.
type emptyImages struct{}

func (emptyImages) ResolveImageConfig(
	_ context.Context, name string, _ sourceresolver.Opt,
) (string, digest.Digest, []byte, error) {
	config := []byte(`{"architecture":"amd64","os":"linux","config":{}}`)
	return name, digest.FromBytes(config), config, nil
}

func ignored(path string, paths []string) (any, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	patterns, err := ignorefile.ReadAll(file)
	if err != nil {
		return nil, err
	}
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, each := range paths {
		matches, err := matcher.MatchesOrParentMatches(each)
		if err != nil {
			return nil, err
		}
		if matches {
			out = append(out, each)
		}
	}
	return out, nil
}

func anyYAML(path string, _ []string) (any, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var read any
	return read, yaml.Unmarshal(text, &read)
}
