// Command deviceplugin advertises SIMULATED devices to the kubelet, for clusters that have no GPU.
//
// It speaks the kubelet's device plugin API (v1beta1) as a vendor's plugin does: it registers, lists its devices, and
// answers Allocate with NVIDIA_VISIBLE_DEVICES. Every device id says "simulated".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	socketName = "gpu-simulated.sock"
	// A kubelet that starts removes every plugin's socket: its absence is the sign to register again.
	watchInterval   = 500 * time.Millisecond
	retryInterval   = time.Second
	registerTimeout = 5 * time.Second
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	devices []*api.Device
	stopped <-chan struct{}
}

func newPlugin(count int, stopped <-chan struct{}) *plugin {
	devices := make([]*api.Device, count)
	for index := range devices {
		devices[index] = &api.Device{ID: fmt.Sprintf("GPU-simulated-%d", index), Health: api.Healthy}
	}
	return &plugin{devices: devices, stopped: stopped}
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch tells all devices once: simulated ones never fail.
func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	select {
	case <-stream.Context().Done():
	case <-p.stopped:
	}
	return nil
}

func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		ids := strings.Join(container.DevicesIds, ",")
		log.Printf("simulated: allocating %s", ids)
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": ids},
		})
	}
	return response, nil
}

// register announces the plugin's socket to the kubelet.
func register(ctx context.Context, directory, resource string) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	kubelet, err := grpc.NewClient("unix://"+filepath.Join(directory, "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer kubelet.Close()
	_, err = api.NewRegistrationClient(kubelet).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: socketName, ResourceName: resource, Options: &api.DevicePluginOptions{},
	})
	return err
}

// vanished waits until the file at path is gone or ctx ends.
func vanished(ctx context.Context, path string) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// serve offers the devices from registration until the kubelet forgets us or ctx ends.
func serve(ctx context.Context, directory, resource string, count int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	path := filepath.Join(directory, socketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, newPlugin(count, ctx.Done()))
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	if err := register(ctx, directory, resource); err != nil {
		return err
	}
	log.Printf("simulated: registered %d devices as %s", count, resource)
	vanished(ctx, path)
	return nil
}

// offer keeps the devices registered, through restarts of the kubelet, until ctx ends.
func offer(ctx context.Context, directory, resource string, count int) {
	for ctx.Err() == nil {
		if err := serve(ctx, directory, resource, count); err != nil && ctx.Err() == nil {
			log.Printf("simulated: no kubelet takes %s yet: %v", resource, err)
			time.Sleep(retryInterval)
		}
	}
}

func main() {
	resource := flag.String("resource", "nvidia.com/gpu", "the resource to advertise")
	count := flag.Int("count", 8, "how many simulated devices")
	directory := flag.String("socket-dir", strings.TrimSuffix(api.DevicePluginPath, "/"), "folder of the kubelet's socket")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	offer(ctx, *directory, *resource, *count)
}
