import type { RoleProcess, StartedPart } from '../../workers/role-process.ts';
import { startAdmission } from './admission.ts';

/** Starts admission in this process, and ends the process when the API server cannot be told of it in time (FG-16). */
export function startAdmissionPart({ config, log, metrics, shutdown, kube }: RoleProcess): StartedPart {
  const admission = startAdmission({
    client: kube,
    featureGates: config.featureGates,
    podNamespace: config.podNamespace,
    webhook: config.webhook,
    log,
    observe: (path, outcome, seconds) => metrics.webhookSeconds.observe({ path, outcome }, seconds),
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
