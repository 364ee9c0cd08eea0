package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strconv"

	"github.com/pulumi/pulumi/sdk/v3"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
)

// RunPlugin runs a policy pack, or another plugin written in Python, until it ends or the engine hangs up.
func (h *host) RunPlugin(request *pulumirpc.RunPluginRequest, stream pulumirpc.LanguageRuntime_RunPluginServer) error {
	closer, stdout, stderr, err := rpcutil.MakeRunPluginStreams(stream, false)
	if err != nil {
		return err
	}
	defer closer.Close()
	if request.Kind == string(apitype.AnalyzerPlugin) {
		err = runPack(stream.Context(), request, stdout, stderr)
	} else {
		err = runModule(stream.Context(), request, stdout, stderr)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		status := &pulumirpc.RunPluginResponse_Exitcode{Exitcode: int32(exit.ExitCode())}
		return stream.Send(&pulumirpc.RunPluginResponse{Output: status})
	}
	return err
}

// runPack starts a policy pack behind the SDK's proxy: the engine tells the stack over the wire, the pack's library
// expects it in its environment, so the pack cannot start before the engine has spoken.
func runPack(ctx context.Context, request *pulumirpc.RunPluginRequest, stdout, stderr io.Writer) error {
	pack := request.Info.ProgramDirectory
	arguments := append([]string{"-u", "-m", "pulumi.policy"}, request.Args...)
	command, err := pluginCommand(ctx, request, append(arguments, pack), stderr)
	if err != nil {
		return err
	}
	command.Dir = pack
	proxy, packStdout, err := sdk.NewPolicyProxy(ctx, stdout)
	if err != nil {
		return err
	}
	command.Stdout = packStdout
	stack, err := proxy.AwaitConfiguration(ctx)
	if err != nil {
		return err
	}
	if command.Env, err = packEnvironment(command.Env, stack); err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	return proxy.Attach(ctx, command)
}

func runModule(ctx context.Context, request *pulumirpc.RunPluginRequest, stdout, stderr io.Writer) error {
	arguments := append([]string{request.Info.ProgramDirectory}, request.Args...)
	command, err := pluginCommand(ctx, request, arguments, stderr)
	if err != nil {
		return err
	}
	command.Dir = request.Pwd
	command.Stdout = stdout
	return command.Run()
}

func pluginCommand(
	ctx context.Context, request *pulumirpc.RunPluginRequest, arguments []string, stderr io.Writer,
) (*exec.Cmd, error) {
	python, err := resolve(request.Info)
	if err != nil {
		return nil, err
	}
	if err := python.ValidateVenv(ctx); err != nil {
		return nil, err
	}
	command, err := python.Command(ctx, arguments...)
	if err != nil {
		return nil, err
	}
	command.Env = append(environment(command), request.Env...)
	command.Stderr = stderr
	return command, nil
}

// packEnvironment says which stack is judged; a pack that is only asked what it contains has none.
func packEnvironment(env []string, stack *pulumirpc.AnalyzerStackConfigureRequest) ([]string, error) {
	if stack == nil {
		return env, nil
	}
	config := stack.Config
	if config == nil {
		config = map[string]string{}
	}
	values, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	return append(env,
		"PULUMI_ORGANIZATION="+stack.Organization,
		"PULUMI_PROJECT="+stack.Project,
		"PULUMI_STACK="+stack.Stack,
		"PULUMI_DRY_RUN="+strconv.FormatBool(stack.DryRun),
		"PULUMI_CONFIG="+string(values),
	), nil
}
