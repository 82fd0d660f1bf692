// Self-contained kubeconfig files: certificates and tokens are embedded.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { writeFile } from './files.ts';
import type { Instance } from './instance.ts';

/** The credentials in a kubeconfig. */
export type Credentials =
  | { readonly kind: 'certificate' /** Base name in the instance's `pki` folder. */; readonly file: string }
  | { readonly kind: 'token' /** Read again whenever it has changed. */; readonly tokenFile: string };

/** The URL of an instance's API server, from the machine, the control plane and the nodes alike. */
export function apiserverUrl(instance: Instance): string {
  return `https://${instance.addresses.controlPlane}:6443`;
}

/** Writes a kubeconfig for this instance atomically. */
export function writeKubeconfig(instance: Instance, file: string, user: string, credentials: Credentials): void {
  const pki = (name: string): string => readFileSync(join(instance.folder, 'pki', name)).toString('base64');
  const identity =
    credentials.kind === 'token'
      ? { tokenFile: credentials.tokenFile }
      : {
          'client-certificate-data': pki(`${credentials.file}.crt`),
          'client-key-data': pki(`${credentials.file}.key`),
        };
  writeKubeconfigFile(file, {
    server: apiserverUrl(instance),
    certificateAuthorityData: pki('ca.crt'),
    context: instance.name === 'default' ? 'windlass' : `windlass-${instance.name}`,
    user,
    identity,
  });
}

/** Writes a kubeconfig of one cluster, one user and one context. */
export function writeKubeconfigFile(
  file: string,
  content: {
    readonly server: string;
    readonly certificateAuthorityData?: string | undefined;
    readonly context: string;
    readonly user: string;
    readonly identity: Readonly<Record<string, string>>;
  },
): void {
  const { server, certificateAuthorityData, context, user, identity } = content;
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: context,
        cluster: {
          server,
          ...(certificateAuthorityData ? { 'certificate-authority-data': certificateAuthorityData } : {}),
        },
      },
    ],
    users: [{ name: user, user: identity }],
    contexts: [{ name: context, context: { cluster: context, user } }],
    'current-context': context,
  };
  writeFile(file, stringify(config));
}
