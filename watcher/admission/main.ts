import { beginProcess, serveParts } from '../../workers/role-process.ts';
import { startAdmissionPart } from './start.ts';

// The webhook: mutates, validates and converts. It is a process of its own, so that nothing else delays admission.
const process = beginProcess('webhook', 'windlass-webhook');
await serveParts(process, [startAdmissionPart(process)]);
