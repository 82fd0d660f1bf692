import { join } from 'node:path';
import { webhookClientAuthority } from '../../deploy/local/control-plane.ts';
import { controlPlanePorts, findInstance, type Instance, instanceName } from '../../deploy/local/instance.ts';
import { writeKubeconfig } from '../../deploy/local/kubeconfigs.ts';
import { applyManifests } from '../../deploy/local/manifests.ts';
import { killPart, partReady, startPart } from '../../deploy/local/parts.ts';
import { status, withApi } from '../../deploy/local/platform.ts';
import { type Role, writeRoleAccess } from '../../deploy/local/roles.ts';
import { waitFor } from './wait.ts';

/** The instance of the local platform for this test run: API server, controllers, Temporal. */
export interface TestPlatform {
  /** The administrator's kubeconfig. */
  readonly kubeconfig: string;
  readonly temporalAddress: string;
  /** The address at which the API server reaches processes of this machine. */
  readonly machine: string;
  /** Where the webhook of a test listens. One at a time does, so the next finds registrations and CRDs as it wants them. */
  readonly webhookPort: number;
  /** The folder of logs, which stays after the instance was taken down. */
  readonly logs: string;
  /** The CA of the certificate that the API server presents to webhooks. */
  readonly webhookClientCa: string;
  /** One JSON object per line for each call of Windlass's roles. */
  readonly auditLog: string;
  /**
   * Applies the manifests in `deploy/` for these feature gates; admission is expected at this machine. Absent: the
   * defaults.
   */
  install(featureGates?: string): Promise<void>;
  /**
   * Writes a kubeconfig with a token of the role's ServiceAccount, bound to a node if one is given, and returns its
   * path.
   */
  accessOf(role: Role, node?: { readonly name: string }): Promise<string>;
  /** Kills a part. */
  kill(part: string): Promise<void>;
  /** Restarts a part and waits until it is ready. */
  start(part: string): Promise<void>;
}

/** The platform of this name, or of WINDLASS_INSTANCE. It has to be up. */
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
    webhookPort: controlPlanePorts.webhook,
    logs: join(now.folder, 'logs'),
    webhookClientCa: webhookClientAuthority(instance),
    auditLog: join(now.folder, 'audit.log'),
    install: (featureGates = '') =>
      withApi(instance, (api) =>
        applyManifests({
          api,
          kubeconfig: now.kubeconfig,
          webhookUrl: `https://${now.machine}:${controlPlanePorts.webhook}`,
          apiServerAddress: instance.addresses.controlPlane,
          cacheFolder: join(now.folder, 'roles', 'kubectl-cache'),
          featureGates,
        }),
      ),
    accessOf: (role, node) => accessOf(instance, role, node),
    kill: (part) => killPart(instance, part),
    async start(part) {
      // threads of the killed process may hold its port for a moment
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
