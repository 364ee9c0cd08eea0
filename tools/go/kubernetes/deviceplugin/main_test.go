package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// kubelet stands in for the real one: it notes who registers.
type kubelet struct {
	api.UnimplementedRegistrationServer
	requests chan *api.RegisterRequest
}

func (k *kubelet) Register(_ context.Context, request *api.RegisterRequest) (*api.Empty, error) {
	k.requests <- request
	return &api.Empty{}, nil
}

func (k *kubelet) await(t *testing.T) *api.RegisterRequest {
	t.Helper()
	select {
	case request := <-k.requests:
		return request
	case <-time.After(10 * time.Second):
		t.Fatal("nothing registered within 10 s")
		return nil
	}
}

func startKubelet(t *testing.T, directory string) *kubelet {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(directory, "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	started := &kubelet{requests: make(chan *api.RegisterRequest, 1)}
	server := grpc.NewServer()
	api.RegisterRegistrationServer(server, started)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return started
}

// startPlugin runs the plugin in a short folder (a socket's path has a limit) and returns the folder and its kubelet.
func startPlugin(t *testing.T, count int) (string, *kubelet) {
	t.Helper()
	directory, err := os.MkdirTemp("", "plugin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	node := startKubelet(t, directory)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		offer(ctx, directory, "nvidia.com/gpu", count)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return directory, node
}

func client(t *testing.T, directory string) api.DevicePluginClient {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+filepath.Join(directory, socketName),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return api.NewDevicePluginClient(connection)
}

// The kubelet learns the resource and as many healthy devices as were asked for, each named as simulated.
func TestDevicesAreAdvertised(t *testing.T) {
	directory, node := startPlugin(t, 2)
	request := node.await(t)
	if request.ResourceName != "nvidia.com/gpu" || request.Endpoint != socketName || request.Version != api.Version {
		t.Fatalf("registered as %v", request)
	}
	stream, err := client(t, directory).ListAndWatch(context.Background(), &api.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Devices) != 2 || list.Devices[1].ID != "GPU-simulated-1" || list.Devices[1].Health != api.Healthy {
		t.Fatalf("devices are %v", list.Devices)
	}
}

// A container sees exactly the devices that it was given.
func TestAllocationNamesItsDevices(t *testing.T) {
	directory, node := startPlugin(t, 8)
	node.await(t)
	response, err := client(t, directory).Allocate(context.Background(), &api.AllocateRequest{
		ContainerRequests: []*api.ContainerAllocateRequest{
			{DevicesIds: []string{"GPU-simulated-3", "GPU-simulated-5"}},
			{DevicesIds: []string{"GPU-simulated-0"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for index, expected := range []string{"GPU-simulated-3,GPU-simulated-5", "GPU-simulated-0"} {
		if seen := response.ContainerResponses[index].Envs["NVIDIA_VISIBLE_DEVICES"]; seen != expected {
			t.Errorf("container %d sees %q, not %q", index, seen, expected)
		}
	}
}

// A kubelet that starts anew, which removes the plugins' sockets, gets the devices again.
func TestRestartedKubeletIsToldAgain(t *testing.T) {
	directory, node := startPlugin(t, 1)
	node.await(t)
	if err := os.Remove(filepath.Join(directory, socketName)); err != nil {
		t.Fatal(err)
	}
	node.await(t)
}
