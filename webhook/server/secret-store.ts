import type { KubeObject } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { KubeClient } from '../../kube/client.ts';
import { answerStatus, isMissing } from '../review/look-ups.ts';
import type { CertificateStore } from './certificates.ts';

interface Secret extends KubeObject {
  /** Values in base64. */
  readonly data?: Readonly<Record<string, string>>;
}

const changedAtAnnotation = 'windlass.io/certificates-changed-at';
const fieldManager = 'windlass-webhook';

/**
 * Shares certificates through a Secret, which is created when it is missing. Its resourceVersion detects concurrent
 * writes.
 */
export function secretStore(
  client: Pick<KubeClient, 'get' | 'create' | 'patch'>,
  ref: { readonly namespace: string; readonly name: string },
): CertificateStore {
  const resource = kubeResource.secrets;
  return {
    name: `Secret "${ref.namespace}/${ref.name}"`,

    async read(signal) {
      try {
        const { metadata, data = {} } = await client.get<Secret>(resource, ref, { signal });
        const changedAtMs = Date.parse(metadata.annotations?.[changedAtAnnotation] ?? '');
        return {
          files: Object.fromEntries(Object.entries(data).map(([name, value]) => [name, decode(value)])),
          changedAtMs: Number.isNaN(changedAtMs) ? 0 : changedAtMs,
          version: metadata.resourceVersion,
        };
      } catch (error) {
        if (isMissing(error)) return { files: {}, changedAtMs: 0 };
        throw error;
      }
    },

    async write({ files, changedAtMs, version }, signal) {
      const annotations = { [changedAtAnnotation]: new Date(changedAtMs).toISOString() };
      const data = Object.fromEntries(Object.entries(files).map(([name, value]) => [name, encode(value ?? '')]));
      try {
        if (version === undefined) {
          const secret = { metadata: { ...ref, annotations }, type: 'Opaque', data };
          await client.create(resource, secret, { fieldManager, signal });
        } else {
          const change = { metadata: { resourceVersion: version, annotations }, data };
          await client.patch(resource, ref, 'merge', change, { fieldManager, signal });
        }
        return true;
      } catch (error) {
        // It was created, changed or deleted since it was read.
        if (answerStatus(error) === 409 || isMissing(error)) return false;
        throw error;
      }
    },
  };
}

function decode(base64: string): string {
  return Buffer.from(base64, 'base64').toString();
}

function encode(text: string): string {
  return Buffer.from(text).toString('base64');
}
