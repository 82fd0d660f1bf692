import { join } from 'node:path';
import { webhookClientAuthority } from '../../deploy/local/control-plane.ts';
import { findInstance, type Instance, instanceName } from '../../deploy/local/instance.ts';
import { writeKubeconfig } from '../../deploy/local/kubeconfigs.ts';
import { applyManifests } from '../../deploy/local/manifests.ts';
import { killPart, partReady, startPart } from '../../deploy/local/parts.ts';
import { status, withApi } from '../../deploy/local/platform.ts';
import { type Role, writeRoleAccess } from '../../deploy/local/roles.ts';
import { waitFor } from './wait.ts';

/** The instance of the local platform that this run of tests was given: API server, controllers, Temporal. */
export interface TestPlatform {
  /** The administrator's. */
  readonly kubeconfig: string;
  readonly temporalAddress: string;
  /** Where a process of this machine has to listen to be reached by the API server. */
  readonly machine: string;
  /** Where logs are kept, also after the instance was taken down. */
  readonly logs: string;
  /** The authority of the certificate that the API server shows to webhooks. */
  readonly webhookClientCa: string;
  /** One JSON object a line for each call of Windlass's roles. */
  readonly auditLog: string;
  /**
   * Applies everything below `deploy/` that a cluster needs with these feature gates; admission is then expected at this
   * machine. Absent: the defaults.
   */
  install(featureGates?: string): Promise<void>;
  /** Writes a kubeconfig with a token of the role's own ServiceAccount, bound to a node if one is given, and answers where. */
  accessOf(role: Role, node?: { readonly name: string }): Promise<string>;
  /** Ends a part with KILL. */
  kill(part: string): Promise<void>;
  /** Starts a part again and waits until it answers. */
  start(part: string): Promise<void>;
}

/** The platform of this name, or the one that WINDLASS_INSTANCE names. It has to be up. */
export function testPlatform(name: string = instanceName(process.env)): TestPlatform {
  const instance = findInstance(name);
  const now = status(name);
  if (!instance || !now) {
    throw new Error(
      `Instance "${name}" is down: run "npm test -- integration", or "npm run up" with WINDLASS_INSTANCE`,
    );
  }
  return {
    kubeconfig: now.kubeconfig,
    temporalAddress: now.temporal,
    machine: now.machine,
    logs: join(now.folder, 'logs'),
    webhookClientCa: webhookClientAuthority(instance),
    auditLog: join(now.folder, 'audit.log'),
    // nobody listens on this port: the webhook of a test writes its own as soon as it runs
    install: (featureGates = '') =>
      withApi(instance, (api) =>
        applyManifests({
          api,
          kubeconfig: now.kubeconfig,
          webhookUrl: `https://${now.machine}:9`,
          apiServerAddress: instance.addresses.controlPlane,
          cacheFolder: join(now.folder, 'roles', 'kubectl-cache'),
          featureGates,
        }),
      ),
    accessOf: (role, node) => accessOf(instance, role, node),
    kill: (part) => killPart(instance, part),
    async start(part) {
      // threads of the one that was killed may hold its port for a moment
      await waitFor(`part ${part} to run again`, async () => {
        await startPart(instance, part);
        await partReady(instance, part);
        return true;
      });
    },
  };
}

async function accessOf(instance: Instance, role: Role, node?: { readonly name: string }): Promise<string> {
  const folder = join(instance.folder, 'roles');
  return await withApi(instance, (api) =>
    writeRoleAccess(api, role, folder, node, (file, user, tokenFile) =>
      writeKubeconfig(instance, file, user, { kind: 'token', tokenFile }),
    ),
  );
}
