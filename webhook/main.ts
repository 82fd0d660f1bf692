import { beginProcess, serveParts } from '../process/role-process.ts';
import { watchEventLoop } from './event-loop-watchdog.ts';
import { startAdmissionPart } from './start.ts';

// The webhook: mutates, validates and converts. It is a process of its own, so that nothing else delays admission.
const process = beginProcess('webhook', 'windlass-webhook');
// No review takes more than a tenth of a second; what takes longer than this is a fault, and all pods wait for it.
watchEventLoop({ role: 'webhook', mostCpuMs: 3_000 });
await serveParts(process, [startAdmissionPart(process)]);
