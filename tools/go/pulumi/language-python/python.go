package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"github.com/pulumi/pulumi/sdk/v3/python/toolchain"
)

// resolve turns the runtime options of a project into the Python that serves it.
func resolve(info *pulumirpc.ProgramInfo) (toolchain.Toolchain, error) {
	options, err := pythonOptions(info)
	if err != nil {
		return nil, err
	}
	return toolchain.ResolveToolchain(options)
}

func pythonOptions(info *pulumirpc.ProgramInfo) (toolchain.PythonOptions, error) {
	options := toolchain.PythonOptions{Root: info.RootDirectory, ProgramDir: info.ProgramDirectory}
	for name, value := range info.Options.AsMap() {
		text, ok := value.(string)
		if !ok {
			return options, fmt.Errorf("runtime option %q must be a string, not %v", name, value)
		}
		switch name {
		case "virtualenv":
			options.Virtualenv = text
		case "toolchain":
			if err := choose(&options, text); err != nil {
				return options, err
			}
		default:
			return options, fmt.Errorf("runtime option %q is not known here; there are virtualenv and toolchain", name)
		}
	}
	return options, nil
}

func choose(options *toolchain.PythonOptions, name string) error {
	switch name {
	case "", "auto":
		options.Toolchain = toolchain.Auto
	case "pip":
		options.Toolchain = toolchain.Pip
	case "poetry":
		options.Toolchain = toolchain.Poetry
	case "uv":
		options.Toolchain = toolchain.Uv
	default:
		return fmt.Errorf("runtime option toolchain is %q; there are auto, pip, poetry and uv", name)
	}
	return nil
}

// environment is what a command would get; the toolchain leaves it open where no virtual environment is used.
func environment(command *exec.Cmd) []string {
	if command.Env == nil {
		return os.Environ()
	}
	return command.Env
}

func (h *host) About(ctx context.Context, request *pulumirpc.AboutRequest) (*pulumirpc.AboutResponse, error) {
	python, err := resolve(request.Info)
	if err != nil {
		return nil, err
	}
	info, err := python.About(ctx)
	if err != nil {
		return nil, err
	}
	return &pulumirpc.AboutResponse{Executable: info.PythonExecutable, Version: info.PythonVersion.String()}, nil
}

func (h *host) GetProgramDependencies(
	ctx context.Context, request *pulumirpc.GetProgramDependenciesRequest,
) (*pulumirpc.GetProgramDependenciesResponse, error) {
	python, err := resolve(request.Info)
	if err != nil {
		return nil, err
	}
	packages, err := python.ListPackages(ctx, request.TransitiveDependencies)
	if err != nil {
		return nil, err
	}
	response := &pulumirpc.GetProgramDependenciesResponse{}
	for _, found := range packages {
		dependency := &pulumirpc.DependencyInfo{Name: found.Name, Version: found.Version}
		response.Dependencies = append(response.Dependencies, dependency)
	}
	return response, nil
}

func (h *host) InstallDependencies(
	request *pulumirpc.InstallDependenciesRequest, stream pulumirpc.LanguageRuntime_InstallDependenciesServer,
) error {
	python, err := resolve(request.Info)
	if err != nil {
		return err
	}
	closer, stdout, stderr, err := rpcutil.MakeInstallDependenciesStreams(stream, request.IsTerminal)
	if err != nil {
		return err
	}
	defer closer.Close()
	return python.InstallDependencies(
		stream.Context(), request.Directory, request.UseLanguageVersionTools, true, stdout, stderr)
}

func (h *host) RuntimeOptionsPrompts(
	context.Context, *pulumirpc.RuntimeOptionsRequest,
) (*pulumirpc.RuntimeOptionsResponse, error) {
	return &pulumirpc.RuntimeOptionsResponse{}, nil
}

func (h *host) Template(context.Context, *pulumirpc.TemplateRequest) (*pulumirpc.TemplateResponse, error) {
	return &pulumirpc.TemplateResponse{}, nil
}
