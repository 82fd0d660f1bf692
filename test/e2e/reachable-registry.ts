import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findInstance, instanceName } from '../../deploy/local/instance.ts';

/** Configures the runtimes of both nodes for the test's own registry, which uses HTTP, and returns its name there. */
export function reachableByNodes(port: number): string {
  const instance = findInstance(instanceName(process.env));
  if (!instance) throw new Error('there is no cluster');
  const address = `${instance.addresses.machine}:${port}`;
  for (const node of ['node-1', 'node-2']) {
    const folder = join(instance.folder, 'nodes', node, 'registries', address);
    mkdirSync(folder, { recursive: true });
    const lines = [
      `server = "http://${address}"`,
      `[host."http://${address}"]`,
      '  capabilities = ["pull", "resolve"]',
    ];
    writeFileSync(join(folder, 'hosts.toml'), `${lines.join('\n')}\n`);
  }
  return address;
}
