// The parts of the control plane, each listening on the control plane's own address.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { ensureAuthority, ensureCertificate } from './certificates.ts';
import type { DebianTools } from './debian.ts';
import { writeFile } from './files.ts';
import { controlPlanePorts, type Instance, repository } from './instance.ts';
import { apiserverUrl, writeKubeconfig } from './kubeconfigs.ts';
import type { Place } from './namespaces.ts';
import { fingerprintOf, type PartSpec } from './parts.ts';
import { toolPath } from './tools.ts';

/** Settings of the control plane. */
export interface ControlPlaneOptions {
  /** How long a node may be silent before its pods are considered lost. Long, because machines may stall. */
  readonly nodeMonitorGraceSeconds: number;
}

/** Creates certificates and the kubeconfigs of administrator and control plane. */
export async function prepareControlPlane(instance: Instance): Promise<void> {
  const { controlPlane, kubernetesService } = instance.addresses;
  const pki = join(instance.folder, 'pki');
  await ensureAuthority(pki);
  await ensureCertificate(pki, 'apiserver', {
    name: 'kube-apiserver',
    hosts: [
      controlPlane,
      kubernetesService,
      '127.0.0.1',
      'localhost',
      ...['kubernetes', 'kubernetes.default', 'kubernetes.default.svc', 'kubernetes.default.svc.cluster.local'],
    ],
  });
  await ensureCertificate(pki, 'apiserver-kubelet', { name: 'kube-apiserver-kubelet', group: 'system:masters' });
  await ensureCertificate(pki, 'front-proxy', { name: 'front-proxy' });
  await ensureCertificate(pki, 'admin', { name: 'windlass-admin', group: 'system:masters' });
  writeKubeconfig(instance, instance.kubeconfig, 'windlass-admin', { kind: 'certificate', file: 'admin' });
  for (const name of ['kube-controller-manager', 'kube-scheduler', 'kube-proxy']) {
    await ensureCertificate(pki, name, { name: `system:${name}` });
    writeKubeconfig(instance, controlPlaneFile(instance, `${name}.kubeconfig`), name, {
      kind: 'certificate',
      file: name,
    });
  }
  writeFile(controlPlaneFile(instance, 'audit-policy.yaml'), stringify(auditPolicy));
  await prepareWebhookClient(instance);
}

/** A CA that signs only the certificate that the API server presents to admission webhooks. */
export function webhookClientAuthority(instance: Instance): string {
  return join(webhookClientFolder(instance), 'ca.crt');
}

/**
 * Makes the API server present a certificate to admission webhooks. It has a CA of its own: a webhook that trusted the
 * CA of the cluster would take each node, and each user with a certificate, for the API server. Conversion webhooks are
 * called without a certificate: the API server uses this file for its two admission plugins only.
 */
async function prepareWebhookClient(instance: Instance): Promise<void> {
  const folder = webhookClientFolder(instance);
  await ensureAuthority(folder);
  await ensureCertificate(folder, 'apiserver', { name: 'kube-apiserver-webhook-client' });
  writeFile(webhookClientFile(instance, 'kubeconfig'), stringify(webhookKubeconfig(folder)));
  writeFile(
    webhookClientFile(instance, 'admission.yaml'),
    stringify(admissionConfiguration(webhookClientFile(instance, 'kubeconfig'))),
  );
}

/** The API server presents this certificate to each webhook, whatever its address. */
function webhookKubeconfig(folder: string): object {
  const user = { 'client-certificate': join(folder, 'apiserver.crt'), 'client-key': join(folder, 'apiserver.key') };
  return { apiVersion: 'v1', kind: 'Config', users: [{ name: '*', user }] };
}

function admissionConfiguration(kubeConfigFile: string): object {
  const apiVersion = 'apiserver.config.k8s.io/v1';
  const configuration = { apiVersion, kind: 'WebhookAdmissionConfiguration', kubeConfigFile };
  const plugins = ['MutatingAdmissionWebhook', 'ValidatingAdmissionWebhook'].map((name) => ({ name, configuration }));
  return { apiVersion, kind: 'AdmissionConfiguration', plugins };
}

function webhookClientFolder(instance: Instance): string {
  return join(instance.folder, 'pki', 'webhook-client');
}

function webhookClientFile(instance: Instance, name: string): string {
  return controlPlaneFile(instance, `webhook-client-${name}`);
}

/** etcd, whose port is reachable for the control plane only. It need not survive a power failure. */
export function etcd(instance: Instance, debian: DebianTools): PartSpec {
  return {
    name: 'etcd',
    place: 'control-plane',
    argv: [
      debian.etcd,
      `--data-dir=${join(instance.folder, 'etcd')}`,
      '--listen-client-urls=http://127.0.0.1:2379',
      '--advertise-client-urls=http://127.0.0.1:2379',
      '--listen-peer-urls=http://127.0.0.1:2380',
      '--unsafe-no-fsync',
      '--quota-backend-bytes=8589934592',
      '--auto-compaction-retention=30m',
      '--log-level=warn',
      '--logger=zap',
    ],
    ready: { kind: 'listening', port: 2379 },
  };
}

/** Go's default collects garbage at each doubling of the heap, a fifth of the processor time of servers as busy as these. */
export const rareCollections = { GOGC: '400' } as const;

/**
 * The API server. It writes `audit.log` in the instance's folder: each write, and all calls of Windlass and
 * administrators.
 */
export function apiserver(instance: Instance): PartSpec {
  const { controlPlane, serviceRange } = instance.addresses;
  const pki = (name: string): string => join(instance.folder, 'pki', name);
  return {
    name: 'apiserver',
    place: 'control-plane',
    argv: [
      toolPath('kube-apiserver'),
      `--bind-address=${controlPlane}`,
      `--advertise-address=${controlPlane}`,
      `--secure-port=${controlPlanePorts.apiserver}`,
      '--etcd-servers=http://127.0.0.1:2379',
      `--service-cluster-ip-range=${serviceRange}`,
      `--tls-cert-file=${pki('apiserver.crt')}`,
      `--tls-private-key-file=${pki('apiserver.key')}`,
      `--client-ca-file=${pki('ca.crt')}`,
      `--kubelet-certificate-authority=${pki('ca.crt')}`,
      `--kubelet-client-certificate=${pki('apiserver-kubelet.crt')}`,
      `--kubelet-client-key=${pki('apiserver-kubelet.key')}`,
      '--kubelet-preferred-address-types=InternalIP',
      // For extension API servers behind APIServices.
      `--requestheader-client-ca-file=${pki('ca.crt')}`,
      '--requestheader-allowed-names=front-proxy',
      '--requestheader-username-headers=X-Remote-User',
      '--requestheader-group-headers=X-Remote-Group',
      '--requestheader-extra-headers-prefix=X-Remote-Extra-',
      `--proxy-client-cert-file=${pki('front-proxy.crt')}`,
      `--proxy-client-key-file=${pki('front-proxy.key')}`,
      '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
      `--service-account-key-file=${pki('service-account.pub')}`,
      `--service-account-signing-key-file=${pki('service-account.key')}`,
      '--authorization-mode=Node,RBAC',
      '--enable-admission-plugins=NodeRestriction',
      `--admission-control-config-file=${webhookClientFile(instance, 'admission.yaml')}`,
      '--allow-privileged=true',
      // Debian's etcd is too old for this feature: the API server would reject watches from version 0, which kwok uses.
      '--feature-gates=WatchList=false',
      `--audit-policy-file=${controlPlaneFile(instance, 'audit-policy.yaml')}`,
      `--audit-log-path=${join(instance.folder, 'audit.log')}`,
      '--audit-log-maxsize=500',
      '--profiling=false',
    ],
    ready: { kind: 'https', url: `${apiserverUrl(instance)}/readyz` },
    env: rareCollections,
  };
}

/**
 * The controller manager. It also handles namespaces, garbage collection and ServiceAccounts, so it is needed without
 * nodes, too.
 */
export function controllerManager(instance: Instance, options: ControlPlaneOptions): PartSpec {
  const kubeconfig = controlPlaneFile(instance, 'kube-controller-manager.kubeconfig');
  const pki = (name: string): string => join(instance.folder, 'pki', name);
  return {
    name: 'controller-manager',
    place: 'control-plane',
    argv: [
      toolPath('kube-controller-manager'),
      '--bind-address=127.0.0.1',
      `--kubeconfig=${kubeconfig}`,
      `--authentication-kubeconfig=${kubeconfig}`,
      `--authorization-kubeconfig=${kubeconfig}`,
      '--leader-elect=false',
      '--use-service-account-credentials=true',
      `--root-ca-file=${pki('ca.crt')}`,
      `--service-account-private-key-file=${pki('service-account.key')}`,
      `--cluster-signing-cert-file=${pki('ca.crt')}`,
      `--cluster-signing-key-file=${pki('ca.key')}`,
      `--node-monitor-grace-period=${options.nodeMonitorGraceSeconds}s`,
      '--enable-hostpath-provisioner=true',
      // The default of 15 seconds is half a minute of waiting for a user who tries an autoscaler.
      '--horizontal-pod-autoscaler-sync-period=3s',
      // With the default of 20 calls a second its own start takes five seconds.
      '--kube-api-qps=300',
      '--kube-api-burst=500',
      `--flex-volume-plugin-dir=${controlPlaneFile(instance, 'volume-plugins')}`,
      '--profiling=false',
    ],
    ready: { kind: 'listening', port: 10257 },
  };
}

/** The scheduler. */
export function scheduler(instance: Instance): PartSpec {
  const kubeconfig = controlPlaneFile(instance, 'kube-scheduler.kubeconfig');
  return {
    name: 'scheduler',
    place: 'control-plane',
    argv: [
      toolPath('kube-scheduler'),
      '--bind-address=127.0.0.1',
      `--kubeconfig=${kubeconfig}`,
      `--authentication-kubeconfig=${kubeconfig}`,
      `--authorization-kubeconfig=${kubeconfig}`,
      '--leader-elect=false',
      // With the default of 50 calls a second it would be the bottleneck with thousands of pods.
      '--kube-api-qps=500',
      '--kube-api-burst=1000',
      '--profiling=false',
    ],
    ready: { kind: 'listening', port: 10259 },
  };
}

/** kube-proxy beside the API server, so that webhooks behind Services can be called. */
export function controlPlaneProxy(instance: Instance, debian: DebianTools): PartSpec {
  const config = proxyConfigText(
    instance,
    'control-plane',
    instance.addresses.controlPlane,
    controlPlaneFile(instance, 'kube-proxy.kubeconfig'),
  );
  const file = controlPlaneFile(instance, 'kube-proxy.yaml');
  writeFile(file, config);
  return {
    name: 'kube-proxy-control-plane',
    place: 'control-plane',
    argv: [toolPath('kube-proxy'), `--config=${file}`],
    env: debian.env,
    // It waits half a minute for a Node of its name before it continues without one.
    ready: { kind: 'alive' },
    fingerprint: fingerprintOf(config),
  };
}

/** Temporal's development server: one process with its UI, stored in a file, so that killing it loses nothing. */
export function temporal(instance: Instance): PartSpec {
  return temporalServer(instance, {
    place: 'control-plane',
    // Its services connect to each other on 127.0.0.1 whatever address they listen on; the network namespace isolates
    // it.
    address: '0.0.0.0',
    uiAddress: instance.addresses.controlPlane,
    ports: controlPlanePorts,
  });
}

/** The same on the machine itself, for Windlass with an external cluster. */
export function temporalOnMachine(instance: Instance): PartSpec {
  return temporalServer(instance, {
    place: 'machine',
    address: '127.0.0.1',
    uiAddress: '127.0.0.1',
    ports: instance.ports,
  });
}

function temporalServer(
  instance: Instance,
  where: {
    readonly place: Place;
    readonly address: string;
    readonly uiAddress: string;
    /** Without one of its own, its metrics are on any free port. */
    readonly ports: { readonly temporal: number; readonly ui: number; readonly temporalMetrics?: number };
  },
): PartSpec {
  const folder = join(instance.folder, 'temporal');
  mkdirSync(folder, { recursive: true });
  const { temporalMetrics } = where.ports;
  const settings = [
    // With the defaults, each task of a workflow may wait up to 50 ms.
    ...['transfer', 'timer', 'visibility'].map((queue) => `history.${queue}ProcessorMaxPollRPS=10000`),
    // Activities that the worker can run itself are returned in the answer to its workflow task.
    'system.enableActivityEagerExecution=true',
    // A node has one poller, which would poll one of four partitions.
    ...['Read', 'Write'].map((way) => `matching.numTaskqueue${way}Partitions=1`),
  ];
  return {
    name: 'temporal',
    place: where.place,
    argv: [
      toolPath('temporal'),
      ...['server', 'start-dev', '--db-filename', join(folder, 'temporal.db'), '--log-level', 'warn'],
      ...['--ip', where.address, '--port', String(where.ports.temporal)],
      ...['--ui-ip', where.uiAddress, '--ui-port', String(where.ports.ui)],
      ...(temporalMetrics === undefined ? [] : ['--metrics-port', String(temporalMetrics)]),
      // One append per transaction instead of a separate journal file; committed data survives the process.
      ...['journal_mode=wal', 'synchronous=normal'].flatMap((pragma) => ['--sqlite-pragma', pragma]),
      ...settings.flatMap((setting) => ['--dynamic-config-value', setting]),
    ],
    ready: { kind: 'http', url: `http://${where.uiAddress}:${where.ports.ui}/api/v1/namespaces/default` },
    env: rareCollections,
  };
}

/** The image registry that every node uses as the mirror of all registries. */
export function registry(instance: Instance, debian: DebianTools): PartSpec {
  const address = `${instance.addresses.controlPlane}:${controlPlanePorts.registry}`;
  const config = stringify({
    version: 0.1,
    log: { level: 'warn', accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(instance.folder, 'registry') }, delete: { enabled: true } },
    http: { addr: address, secret: 'not a secret: only this machine reaches it' },
  });
  const file = controlPlaneFile(instance, 'registry.yaml');
  writeFile(file, config);
  return {
    name: 'registry',
    place: 'control-plane',
    argv: [debian.registry, 'serve', file],
    env: { ...debian.env, OTEL_TRACES_EXPORTER: 'none' },
    ready: { kind: 'http', url: `http://${address}/v2/` },
    fingerprint: fingerprintOf(config),
  };
}

/** Forwards 127.0.0.1 to Temporal, its UI and the registry. */
export function portForwards(instance: Instance): PartSpec {
  const { ports, addresses } = instance;
  const names = ['temporal', 'ui', 'registry'] as const;
  return {
    name: 'ports',
    place: 'machine',
    argv: [
      process.execPath,
      join(repository, 'deploy/local/forward.ts'),
      ...names.map((name) => `${ports[name]}=${addresses.controlPlane}:${controlPlanePorts[name]}`),
    ],
    ready: { kind: 'listening', port: ports.registry },
  };
}

/** kube-proxy's configuration for one address; `name` need not be a Node. */
export function proxyConfigText(instance: Instance, name: string, address: string, kubeconfig: string): string {
  return stringify({
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: 'iptables',
    hostnameOverride: name,
    bindAddress: address,
    healthzBindAddress: `${address}:10256`,
    metricsBindAddress: '127.0.0.1:10249',
    clientConnection: { kubeconfig },
    clusterCIDR: instance.addresses.podRange,
    // Zero keeps the kernel's limits, which belong to the machine.
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  });
}

/** A file of the control plane. */
export function controlPlaneFile(instance: Instance, name: string): string {
  return join(instance.folder, 'control-plane', name);
}

/** The first match wins: everything that Windlass's roles and administrators do, and every write by any client. */
const auditPolicy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [
    { level: 'None', users: ['system:apiserver'] },
    { level: 'Metadata', userGroups: ['system:masters', 'system:serviceaccounts:kruise-system'] },
    { level: 'None', resources: [{ group: 'coordination.k8s.io', resources: ['leases'] }] },
    { level: 'Metadata', verbs: ['create', 'update', 'patch', 'delete', 'deletecollection'] },
    { level: 'None' },
  ],
} as const;
