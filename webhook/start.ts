import { readFileSync } from 'node:fs';
import type { RoleProcess, StartedPart } from '../process/role-process.ts';
import { startAdmission } from './admission.ts';
import { certificatesIn } from './server/x509.ts';

/** Starts admission in this process; the process exits when the registrations cannot be written in time (FG-16). */
export function startAdmissionPart({ config, log, metrics, shutdown, kube }: RoleProcess): StartedPart {
  const admission = startAdmission({
    client: kube,
    featureGates: config.featureGates,
    podNamespace: config.podNamespace,
    webhook: config.webhook,
    ...(config.webhook.clientCaFile !== undefined && { clientCa: clientCaIn(config.webhook.clientCaFile) }),
    log,
    observe: (path, outcome, seconds) => metrics.webhookSeconds.observe({ path, outcome }, seconds),
    onDeletionRefused: ({ kind, reason }) => metrics.countDeletionRefusal(kind, reason),
    trackReflector: metrics.trackReflector,
  });
  shutdown.add({ name: 'admission', stop: (signal) => admission.stop(signal) });
  admission.ready.then(
    () => log.info('Admission is ready'),
    (error: unknown) => {
      log.error({ err: error }, 'Admission is not ready in time');
      return shutdown.begin('admission is not ready in time', 1);
    },
  );
  return { readiness: { admission: (signal) => admission.checkReady(signal) } };
}

/** Throws for a file without any certificate: no client could call admission. */
function clientCaIn(path: string): string {
  const pem = readFileSync(path, 'utf8');
  if (certificatesIn(pem).length > 0) return pem;
  throw new Error(`Cannot use --client-ca="${path}": the file holds no certificate in PEM form`);
}
