// The parts of one node. Paths are the standard ones, because each node has its own folders mounted there.
import { statfsSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { pauseImage } from './base-images.ts';
import { ensureCertificate } from './certificates.ts';
import { controlPlaneFile, proxyConfigText } from './control-plane.ts';
import type { DebianTools } from './debian.ts';
import { writeFile } from './files.ts';
import { controlPlanePorts, type Instance, type NodePlace } from './instance.ts';
import { writeKubeconfig } from './kubeconfigs.ts';
import { fingerprintOf, type PartSpec } from './parts.ts';
import { toolPath } from './tools.ts';

/** Writes the node's certificate, kubeconfig and configuration files, and returns its parts in start order. */
export async function nodeParts(instance: Instance, node: NodePlace, debian: DebianTools): Promise<PartSpec[]> {
  const pki = join(instance.folder, 'pki');
  const user = `system:node:${node.name}`;
  await ensureCertificate(pki, node.name, { name: user, group: 'system:nodes', hosts: [node.name, node.address] });
  const kubeconfig = join(node.folder, 'kubelet.kubeconfig');
  writeKubeconfig(instance, kubeconfig, user, { kind: 'certificate', file: node.name });

  const written: string[] = [];
  const write = (name: string, text: string): string => {
    const file = join(node.folder, name);
    writeFile(file, text, 0o644);
    written.push(text);
    return file;
  };
  const hosts = write('registries/_default/hosts.toml', mirrorConfig(instance));
  const containerdConfig = write('containerd.toml', containerdConfigText(instance, node, debian, join(hosts, '../..')));
  write('cni-config/10-windlass.conflist', JSON.stringify(cniConfig(node), undefined, 2));
  const kubeletConfig = write('kubelet.yaml', stringify(kubeletConfigObject(instance, node)));
  const proxyConfig = write(
    'kube-proxy.yaml',
    proxyConfigText(instance, node.name, node.address, controlPlaneFile(instance, 'kube-proxy.kubeconfig')),
  );
  const shared = { place: `node-${node.number}`, env: debian.env, fingerprint: fingerprintOf(...written) } as const;
  return [
    {
      ...shared,
      name: `containerd-${node.name}`,
      argv: [debian.containerd, '--config', containerdConfig],
      ready: { kind: 'socket', path: '/run/containerd/containerd.sock' },
    },
    {
      ...shared,
      name: `kubelet-${node.name}`,
      argv: [
        toolPath('kubelet'),
        `--config=${kubeletConfig}`,
        `--kubeconfig=${kubeconfig}`,
        `--hostname-override=${node.name}`,
        `--node-ip=${node.address}`,
        `--node-labels=topology.kubernetes.io/region=local,topology.kubernetes.io/zone=zone-${node.number}`,
      ],
      ready: { kind: 'http', url: `http://${node.address}:10248/healthz` },
    },
    {
      ...shared,
      name: `kube-proxy-${node.name}`,
      argv: [toolPath('kube-proxy'), `--config=${proxyConfig}`],
      ready: { kind: 'listening', port: 10249 },
    },
  ];
}

function kubeletConfigObject(instance: Instance, node: NodePlace): object {
  const pki = (name: string): string => join(instance.folder, 'pki', name);
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    address: node.address,
    healthzBindAddress: node.address,
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: pki('ca.crt') },
    },
    authorization: { mode: 'Webhook' },
    tlsCertFile: pki(`${node.name}.crt`),
    tlsPrivateKeyFile: pki(`${node.name}.key`),
    containerRuntimeEndpoint: 'unix:///run/containerd/containerd.sock',
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${node.cgroup}`,
    enforceNodeAllocatable: [],
    failSwapOn: false,
    failCgroupV1: false,
    maxPods: 110,
    resolvConf: join(node.folder, 'resolv.conf'),
    clusterDomain: 'cluster.local',
    clusterDNS: [instance.addresses.nameService],
    volumePluginDir: '/var/lib/kubelet/volume-plugins',
    registryPullQPS: 0,
    serializeImagePulls: false,
    syncFrequency: '30s',
    // The disk is the machine's: only a really full one may evict pods.
    evictionHard: {
      'memory.available': '100Mi',
      'nodefs.available': '1%',
      'nodefs.inodesFree': '1%',
      'imagefs.available': '1%',
    },
    imageGCHighThresholdPercent: 100,
    imageGCLowThresholdPercent: 99,
  };
}

function containerdConfigText(instance: Instance, _node: NodePlace, debian: DebianTools, registries: string): string {
  const cri = 'plugins."io.containerd.grpc.v1.cri"';
  return `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = "/run/containerd/containerd.sock"

[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"

[${cri}]
  sandbox_image = "${pauseImage}"
  restrict_oom_score_adj = true
  max_concurrent_downloads = 10

[${cri}.cni]
  bin_dir = "${debian.cniFolder}"
  conf_dir = "/etc/cni/net.d"

[${cri}.registry]
  config_path = "${registries}"

[${cri}.containerd]
  snapshotter = "${snapshotter(instance)}"

[${cri}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[${cri}.containerd.runtimes.runc.options]
  BinaryName = "${debian.runc}"
`;
}

/** overlayfs cannot be on top of overlayfs, which is the file system of a checkout inside a container. */
function snapshotter(instance: Instance): string {
  const overlayMagic = 0x794c7630;
  return statfsSync(instance.folder).type === overlayMagic ? 'native' : 'overlayfs';
}

/** `server` is our registry, too, so that a missing image is a quick 404 and not a lookup on the internet. */
function mirrorConfig(instance: Instance): string {
  const url = `http://${instance.addresses.controlPlane}:${controlPlanePorts.registry}`;
  return `server = "${url}"\n\n[host."${url}"]\n  capabilities = ["pull", "resolve"]\n`;
}

function cniConfig(node: NodePlace): object {
  return {
    cniVersion: '0.4.0',
    name: 'windlass',
    plugins: [
      {
        type: 'bridge',
        bridge: 'cni0',
        isGateway: true,
        hairpinMode: true,
        ipam: { type: 'host-local', ranges: [[{ subnet: node.podRange }]], routes: [{ dst: '0.0.0.0/0' }] },
      },
      { type: 'portmap', capabilities: { portMappings: true } },
    ],
  };
}
