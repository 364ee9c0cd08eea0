package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
)

// The executor's exit status for "the user has been told": the engine must not report the failure once more.
const exitAlreadyReported = 32

// Run runs a program to its end. A program that fails is an answer, not an error of the call.
func (h *host) Run(ctx context.Context, request *pulumirpc.RunRequest) (*pulumirpc.RunResponse, error) {
	python, err := resolve(request.Info)
	if err != nil {
		return nil, err
	}
	if err := python.ValidateVenv(ctx); err != nil {
		return nil, err
	}
	command, err := python.Command(ctx, h.arguments(request)...)
	if err != nil {
		return nil, err
	}
	command.Dir = request.Pwd
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if command.Env, err = configured(environment(command), request.Config, request.ConfigSecretKeys); err != nil {
		return nil, err
	}
	return outcome(command.Run()), nil
}

func (h *host) arguments(request *pulumirpc.RunRequest) []string {
	arguments := []string{
		h.executor,
		"--monitor", request.MonitorAddress,
		"--engine", h.engine,
		"--organization", request.Organization,
		"--project", request.Project,
		"--stack", request.Stack,
		"--root_directory", request.Info.RootDirectory,
		"--pwd", request.Pwd,
		"--dry_run", strconv.FormatBool(request.DryRun),
		"--parallel", strconv.Itoa(int(request.Parallel)),
		request.Info.EntryPoint,
	}
	return append(arguments, request.Args...)
}

// configured adds the stack's configuration. The Python side fails on null, so an absent map goes as an empty one.
func configured(env []string, config map[string]string, secretKeys []string) ([]string, error) {
	if config == nil {
		config = map[string]string{}
	}
	if secretKeys == nil {
		secretKeys = []string{}
	}
	values, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	keys, err := json.Marshal(secretKeys)
	if err != nil {
		return nil, err
	}
	return append(env, "PULUMI_CONFIG="+string(values), "PULUMI_CONFIG_SECRET_KEYS="+string(keys)), nil
}

func outcome(err error) *pulumirpc.RunResponse {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return &pulumirpc.RunResponse{}
	case errors.As(err, &exit) && exit.ExitCode() == exitAlreadyReported:
		return &pulumirpc.RunResponse{Bail: true}
	case errors.As(err, &exit) && exit.Exited():
		return &pulumirpc.RunResponse{Error: fmt.Sprintf("the program exited with status %d", exit.ExitCode())}
	default:
		return &pulumirpc.RunResponse{Error: fmt.Sprintf("the program did not run to its end: %v", err)}
	}
}
