// Nodes without a real kubelet: kwok simulates it, so that one machine can have thousands of pods.
import { join } from 'node:path';
import { stringify } from 'yaml';
import { type ApiServer, apply } from './api-server.ts';
import { ensureCertificate } from './certificates.ts';
import { controlPlaneFile } from './control-plane.ts';
import { writeFile } from './files.ts';
import type { Instance } from './instance.ts';
import { writeKubeconfig } from './kubeconfigs.ts';
import { stages, usualPace } from './kwok-stages.ts';
import { fingerprintOf, type PartSpec } from './parts.ts';
import { toolPath } from './tools.ts';

/** Label of simulated nodes, by which kwok selects them. */
export const playedNodeLabel = { key: 'windlass.io/played', value: 'true' } as const;

/** A kubelet's default. */
export const podsPerNode = 110;

const port = 10_247;

/** kwok itself, with credentials of its own, so that the audit log distinguishes its calls. */
export async function kwok(instance: Instance, nodes: number): Promise<PartSpec> {
  await ensureCertificate(join(instance.folder, 'pki'), 'kwok', { name: 'kwok', group: 'system:masters' });
  const kubeconfig = controlPlaneFile(instance, 'kwok.kubeconfig');
  writeKubeconfig(instance, kubeconfig, 'kwok', { kind: 'certificate', file: 'kwok' });
  const config = [optionsFor(nodes), ...stages(usualPace)].map((document) => stringify(document)).join('---\n');
  const file = controlPlaneFile(instance, 'kwok.yaml');
  writeFile(file, config);
  return {
    name: 'kwok',
    place: 'control-plane',
    argv: [
      toolPath('kwok'),
      `--kubeconfig=${kubeconfig}`,
      `--config=${file}`,
      `--manage-nodes-with-label-selector=${playedNodeLabel.key}=${playedNodeLabel.value}`,
      `--server-address=127.0.0.1:${port}`,
    ],
    ready: { kind: 'listening', port },
    fingerprint: fingerprintOf(config),
  };
}

/** Leases of thousands of nodes that are renewed every ten seconds are all that an API server does. */
const mostQuickLeases = 500;

const optionsFor = (nodes: number) => ({
  apiVersion: 'config.kwok.x-k8s.io/v1alpha1',
  kind: 'KwokConfiguration',
  metadata: { name: 'kwok' },
  options: {
    cidr: '10.200.0.1/16',
    enableCRDs: [],
    nodeLeaseDurationSeconds: nodes > mostQuickLeases ? 400 : 40,
    nodeLeaseParallelism: 4,
    nodePlayStageParallelism: 4,
    podPlayStageParallelism: 32,
    podsOnNodeSyncParallelism: 4,
  },
});

const namePrefix = 'played-';
/** Label of simulated nodes with the number in their name. */
export const playedNumberLabel = 'windlass.io/played-number';

/** The name of a simulated node, from 1. */
export function playedNode(number: number): string {
  return `${namePrefix}${number}`;
}

/** Creates the Node objects of this many simulated nodes. */
export async function makePlayedNodes(api: ApiServer, count: number): Promise<void> {
  const names = Array.from({ length: count }, (_, index) => playedNode(index + 1));
  for (const name of names) {
    await apply(api, `/api/v1/nodes/${name}`, {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: {
        name,
        labels: {
          [playedNodeLabel.key]: playedNodeLabel.value,
          [playedNumberLabel]: name.slice(namePrefix.length),
          'kubernetes.io/hostname': name,
          'kubernetes.io/os': 'linux',
        },
      },
    });
    const room = { cpu: '64', memory: '256Gi', pods: String(podsPerNode) };
    const addresses = [{ type: 'Hostname', address: name }];
    await apply(api, `/api/v1/nodes/${name}/status`, {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name },
      status: { capacity: room, allocatable: room, addresses },
    });
  }
}
