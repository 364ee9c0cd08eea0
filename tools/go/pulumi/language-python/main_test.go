package main

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"github.com/pulumi/pulumi/sdk/v3/python/toolchain"
	"google.golang.org/protobuf/types/known/structpb"
)

func info(t *testing.T, options map[string]any) *pulumirpc.ProgramInfo {
	t.Helper()
	fields, err := structpb.NewStruct(options)
	if err != nil {
		t.Fatal(err)
	}
	return &pulumirpc.ProgramInfo{RootDirectory: "/root", ProgramDirectory: "/root/program", Options: fields}
}

// The options of a project choose its Python.
func TestOptionsAreHonoured(t *testing.T) {
	options, err := pythonOptions(info(t, map[string]any{"virtualenv": ".venv", "toolchain": "pip"}))
	if err != nil {
		t.Fatal(err)
	}
	expected := toolchain.PythonOptions{
		Root: "/root", ProgramDir: "/root/program", Virtualenv: ".venv", Toolchain: toolchain.Pip,
	}
	if options != expected {
		t.Fatalf("options are %+v", options)
	}
}

// An option that would be ignored is refused by name.
func TestUnknownOptionsAreRefused(t *testing.T) {
	for name, value := range map[string]any{"typechecker": "mypy", "toolchain": "conda", "virtualenv": 3} {
		if _, err := pythonOptions(info(t, map[string]any{name: value})); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%v gave %v", name, value, err)
		}
	}
}

// The Python side gets maps and lists even where there is no configuration.
func TestAbsentConfigurationIsEmpty(t *testing.T) {
	env, err := configured(nil, nil, nil)
	if err != nil || !slices.Equal(env, []string{"PULUMI_CONFIG={}", "PULUMI_CONFIG_SECRET_KEYS=[]"}) {
		t.Fatalf("%v, %v", env, err)
	}
	env, err = packEnvironment(nil, &pulumirpc.AnalyzerStackConfigureRequest{Stack: "dev"})
	if err != nil || !slices.Contains(env, "PULUMI_CONFIG={}") || !slices.Contains(env, "PULUMI_STACK=dev") {
		t.Fatalf("%v, %v", env, err)
	}
}

// A failed program is told apart from one that has told the user already, and from one that was killed.
func TestOutcomes(t *testing.T) {
	for script, expected := range map[string]string{
		"exit 0":       "",
		"exit 3":       "the program exited with status 3",
		"kill -9 $$":   "the program did not run to its end: signal: killed",
		"exit 32 # ok": "bail",
	} {
		response := outcome(exec.Command("sh", "-c", script).Run())
		if seen := response.Error; seen != expected && !(response.Bail && expected == "bail") {
			t.Errorf("%q gave %q", script, seen)
		}
	}
	if outcome(errors.New("no such file")).Error == "" {
		t.Error("a program that cannot start is a failure")
	}
}
