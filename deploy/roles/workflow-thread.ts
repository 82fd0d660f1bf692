// The workflow thread of a bundled worker: Temporal's, which also returns memory to the system.
import '@temporalio/worker/lib/workflow/workflow-worker-thread.js';
import { sweepWhenQuiet } from '../../process/sweep.ts';

sweepWhenQuiet();
