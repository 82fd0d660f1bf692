import { beginProcess, serveParts } from '../../workers/role-process.ts';
import { startAdmissionPart } from './start.ts';

// The webhook: mutates, validates and converts. A process of its own, so that nothing else holds up admission.
const process = beginProcess('webhook', 'windlass-webhook');
await serveParts(process, [startAdmissionPart(process)]);
