// Command pulumi-language-python runs Python programs and Python policy packs for the Pulumi engine.
//
// The engine asks, by the LanguageRuntime protocol; the interpreter, its environment and its packages are found by the
// SDK's own Python toolchain, so that a project's runtime options mean what they mean with the official host.
// Out of scope, and refused by the protocol's own "unimplemented": code generation, packaging and linking of SDKs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	"github.com/pulumi/pulumi/sdk/v3/go/common/version"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

const (
	// The SDK's script that starts a program; it lies beside the host.
	executorName = "pulumi-language-python-exec"
	// An engine that does not answer for this long is gone, and so are we.
	engineTimeout = 5 * time.Minute
)

type host struct {
	pulumirpc.UnimplementedLanguageRuntimeServer
	executor string
	engine   string
}

func (h *host) Handshake(
	_ context.Context, request *pulumirpc.LanguageHandshakeRequest,
) (*pulumirpc.LanguageHandshakeResponse, error) {
	h.engine = request.EngineAddress
	return &pulumirpc.LanguageHandshakeResponse{}, nil
}

func (h *host) GetPluginInfo(context.Context, *emptypb.Empty) (*pulumirpc.PluginInfo, error) {
	return &pulumirpc.PluginInfo{Version: version.Version}, nil
}

// GetRequiredPackages names nothing: every plugin comes from the toolchain, on PATH, and none is to be downloaded.
func (h *host) GetRequiredPackages(
	context.Context, *pulumirpc.GetRequiredPackagesRequest,
) (*pulumirpc.GetRequiredPackagesResponse, error) {
	return &pulumirpc.GetRequiredPackagesResponse{}, nil
}

// Cancel needs no work: an engine that cancels ends the calls in flight, and their programs with them.
func (h *host) Cancel(context.Context, *emptypb.Empty) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

// watchEngine closes done when the engine is gone, so that no host outlives it.
func watchEngine(engine string, done chan bool) error {
	if engine == "" {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-ctx.Done()
		close(done)
	}()
	return rpcutil.Healthcheck(ctx, engine, engineTimeout, cancel)
}

func run(engine string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime := &host{executor: filepath.Join(filepath.Dir(self), executorName), engine: engine}
	done := make(chan bool)
	if err := watchEngine(engine, done); err != nil {
		return fmt.Errorf("watching the engine at %s: %w", engine, err)
	}
	server, err := rpcutil.ServeWithOptions(rpcutil.ServeOptions{
		Cancel: done,
		Init: func(server *grpc.Server) error {
			pulumirpc.RegisterLanguageRuntimeServer(server, runtime)
			return nil
		},
	})
	if err != nil {
		return err
	}
	fmt.Println(server.Port) // the engine reads it
	return <-server.Done
}

func main() {
	flag.String("tracing", "", "accepted for the engine's sake")
	flag.String("root", "", "accepted for the engine's sake")
	flag.Parse()
	if err := run(flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "pulumi-language-python:", err)
		os.Exit(1)
	}
}
