/**
 * Every option of every role, each once. `config.ts` reads them from flags and environment; `--help` prints this table.
 *
 * A flag `--foo-bar` may also be given as environment variable `WINDLASS_FOO_BAR`; the flag wins. Environment variables
 * of OpenKruise and Kubernetes are accepted, too.
 */

const roles = ['watcher', 'webhook', 'worker', 'daemon', 'all'] as const;

/** The kind of process: each role has its own entry point; `all` is watcher, webhook and cluster worker in one. */
export type Role = (typeof roles)[number];

/** One option: its names, its default, and the values that it accepts. */
export interface Option<Value> {
  readonly flag: string;
  /** Environment variables besides `WINDLASS_<FLAG>`, in order of precedence. */
  readonly env: readonly string[];
  /** In the syntax of the command line; undefined: the option is absent unless given. */
  readonly default: string | undefined;
  readonly roles: readonly Role[];
  /** The end of the sentence "expects …", shown by `--help` and when a value is invalid. */
  readonly expects: string;
  readonly description: string;
  /** Undefined means that the value is invalid. */
  readonly parse: (text: string) => Value | undefined;
}

interface Extra {
  readonly env?: readonly string[];
  readonly roles?: readonly Role[];
}

type Form<Value> = Pick<Option<Value>, 'expects' | 'parse'>;

function option<Value>(
  flag: string,
  form: Form<Value>,
  byDefault: string | undefined,
  description: string,
  extra: Extra = {},
): Option<Value> {
  return { flag, env: extra.env ?? [], default: byDefault, roles: extra.roles ?? roles, description, ...form };
}

const text: Form<string> = { expects: 'a string that is not empty', parse: (given) => given || undefined };

const textOrNothing: Form<string> = { expects: 'a string', parse: (given) => given };

const file: Form<string> = {
  expects: 'the path of one file',
  parse: (given) => (given === '' || given.includes(':') ? undefined : given),
};

const fileOrNone: Form<string> = {
  expects: 'the path of one file, or nothing',
  parse: (given) => (given === '' ? given : file.parse(given)),
};

const switchOnOff: Form<boolean> = {
  expects: 'true or false',
  parse: (given) => ({ true: true, '1': true, false: false, '0': false })[given.toLowerCase()],
};

const port: Form<number> = {
  expects: 'a port from 0 (any free one) to 65535',
  parse: (given) => (/^\d{1,5}$/.test(given) && Number(given) <= 65_535 ? Number(given) : undefined),
};

const listenAddress: Form<string> = {
  expects: 'host:port or :port to listen on, or 0 not to listen',
  parse(given) {
    if (given === '0') return given;
    const found = /^(\[[0-9a-fA-F:.]+\]|[^:[\]\s]*):(\d+)$/.exec(given);
    return found && port.parse(found[2] ?? '') !== undefined ? given : undefined;
  },
};

const hostAndPort: Form<string> = {
  expects: 'host:port',
  parse: (given) => (/^(\[[0-9a-fA-F:.]+\]|[^:[\]\s]+):[1-9]\d{0,4}$/.test(given) ? given : undefined),
};

const number: Form<number> = {
  expects: 'a number, 0 or more',
  parse: (given) => (/^\d+(\.\d+)?$/.test(given) ? Number(given) : undefined),
};

const wholeNumber: Form<number> = {
  expects: 'an integer; below 0: the default of this option',
  parse: (given) => (/^-?\d{1,9}$/.test(given) ? Number(given) : undefined),
};

const secondsOfAMonth: Form<number> = {
  expects: 'an integer number of seconds from 0 to 2678400',
  parse: (given) => (/^\d{1,7}$/.test(given) && Number(given) <= 2_678_400 ? Number(given) : undefined),
};

const durationUnits: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3600 };

/** A Go duration, as in Kubernetes' flags; in seconds. */
const durationSeconds: Form<number> = {
  expects: 'a duration longer than 0 such as 500ms, 15s, 2m or 1h30m',
  parse(given) {
    if (!/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(given)) return undefined;
    const parts = given.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g);
    const seconds = [...parts].reduce(
      (sum, [, count, unit]) => sum + Number(count) * (durationUnits[unit ?? ''] ?? 0),
      0,
    );
    return seconds > 0 ? seconds : undefined;
  },
};

const heartbeatSeconds: Form<number> = {
  expects: 'a duration from 1s to 60s',
  parse(given) {
    const seconds = durationSeconds.parse(given) ?? 0;
    return seconds >= 1 && seconds <= 60 ? seconds : undefined;
  },
};

const ageUnits: Readonly<Record<string, number>> = { s: 1, h: 3600, d: 86_400, m: 30 * 86_400, y: 365 * 86_400 };

/**
 * OpenKruise's format of CERTS_RENEW_BEFORE, where `m` is a month; seconds and hours are our additions, for short-lived
 * tests.
 */
const ageSeconds: Form<number> = {
  expects: 'an integer with s, h, d, m (30 days) or y (365 days) such as 180d',
  parse(given) {
    const found = /^([1-9]\d*)([shdmy])$/.exec(given);
    return found ? Number(found[1]) * (ageUnits[found[2] ?? ''] ?? 0) : undefined;
  },
};

const logLevels = ['trace', 'debug', 'info', 'warn', 'error'];

const logLevel: Form<string> = {
  expects: logLevels.join(', '),
  parse: (given) => (logLevels.includes(given) ? given : undefined),
};

const onlyLeases: Form<string> = {
  expects: 'leases',
  parse: (given) => (given === 'leases' ? given : undefined),
};

const withTemporal: Extra = { roles: ['watcher', 'worker', 'daemon', 'all'] };
const onNodes: Extra = { roles: ['daemon'] };
const notOnNodes: Extra = { roles: ['watcher', 'webhook', 'worker', 'all'] };
const leading: Extra = { roles: ['watcher', 'all'] };
const admission: readonly Role[] = ['webhook', 'all'];

/** Each option means the same in every role; a role that is not listed accepts it without effect. */
export const options = {
  kubeconfig: option('kubeconfig', file, undefined, 'Kubeconfig file; absent: in-cluster configuration', {
    env: ['KUBECONFIG'],
  }),
  kubernetesServiceHost: option('kubernetes-service-host', text, undefined, 'Host of the API server (in-cluster)', {
    env: ['KUBERNETES_SERVICE_HOST'],
  }),
  kubernetesServicePort: option('kubernetes-service-port', port, '443', 'Port of the API server (in-cluster)', {
    env: ['KUBERNETES_SERVICE_PORT'],
  }),
  namespace: option('namespace', textOrNothing, '', 'The only namespace to watch; empty: all'),
  podNamespace: option('pod-namespace', text, 'kruise-system', 'Namespace of Windlass itself', {
    env: ['POD_NAMESPACE'],
  }),
  featureGates: option('feature-gates', textOrNothing, '', 'Feature gates to set: A=true,B=false'),
  logLevel: option('log-level', logLevel, 'info', 'Lowest level of the log, which is JSON on standard output'),
  kubeQps: option('rest-config-qps', number, '0', 'Requests to the API server per second; 0: 200 (daemon: 20)'),
  kubeBurst: option('rest-config-burst', number, '0', 'Burst of requests to the API server; 0: twice the rate'),

  temporalAddress: option(
    'temporal-address',
    hostAndPort,
    '127.0.0.1:7233',
    'Address of the Temporal frontend',
    withTemporal,
  ),
  temporalNamespace: option('temporal-namespace', text, 'default', 'Namespace in Temporal', withTemporal),
  heartbeat: option(
    'heartbeat-period',
    heartbeatSeconds,
    '3s',
    'Time between two heartbeats to Temporal, by which the leading watcher knows that this process lives',
    withTemporal,
  ),
  temporalTls: option(
    'temporal-tls',
    switchOnOff,
    'false',
    'Use TLS to Temporal; implied by the other --temporal-tls options',
    withTemporal,
  ),
  temporalTlsCaFile: option(
    'temporal-tls-ca-file',
    file,
    undefined,
    "CA certificate of Temporal's certificate",
    withTemporal,
  ),
  temporalTlsCertFile: option(
    'temporal-tls-cert-file',
    file,
    undefined,
    'Client certificate for Temporal',
    withTemporal,
  ),
  temporalTlsKeyFile: option(
    'temporal-tls-key-file',
    file,
    undefined,
    'Private key of the client certificate for Temporal',
    withTemporal,
  ),
  temporalTlsServerName: option(
    'temporal-tls-server-name',
    text,
    undefined,
    "Expected server name in Temporal's certificate",
    withTemporal,
  ),
  temporalApiKeyFile: option(
    'temporal-api-key-file',
    file,
    undefined,
    'File with the API key for Temporal',
    withTemporal,
  ),

  metricsAddress: option('metrics-addr', listenAddress, ':8080', 'Serves /metrics', notOnNodes),
  healthProbeAddress: option('health-probe-addr', listenAddress, ':8000', 'Serves /healthz and /readyz', notOnNodes),

  leaderElection: option(
    'enable-leader-election',
    switchOnOff,
    'true',
    'Elect a leader by a Lease; false: lead without election',
    leading,
  ),
  leaderNamespace: option(
    'leader-election-namespace',
    text,
    undefined,
    'Namespace of the Lease; absent: --pod-namespace',
    leading,
  ),
  leaderId: option('leader-election-id', text, 'windlass-watcher', 'Name of the Lease', leading),
  leaderLock: option(
    'leader-election-resource-lock',
    onlyLeases,
    'leases',
    'Resource of the leader election lock',
    leading,
  ),
  leaseDuration: option(
    'leader-election-lease-duration',
    durationSeconds,
    '12s',
    'How long the Lease is held without renewal',
    leading,
  ),
  renewDeadline: option(
    'leader-election-renew-deadline',
    durationSeconds,
    '8s',
    'A leader that cannot renew the Lease for this long stops leading',
    leading,
  ),
  retryPeriod: option(
    'leader-election-retry-period',
    durationSeconds,
    '1s',
    'Time between attempts to acquire or renew the Lease',
    leading,
  ),
  fullPass: option('full-pass-period', durationSeconds, '60s', 'Time between two reconciles of every object', leading),
  engineSilent: option(
    'engine-silent-after',
    durationSeconds,
    '60s',
    'Objects report EngineSilent or EngineNoWorkers after Temporal has not answered, or no worker has polled, for this long',
    leading,
  ),
  manageWorkerDeployment: option(
    'manage-worker-deployment',
    switchOnOff,
    'true',
    "Set the current version of Temporal's worker deployment",
    leading,
  ),
  engineStuck: option(
    'engine-stuck-after',
    durationSeconds,
    '300s',
    'Operations are started again after their workflow task has failed for this long',
    leading,
  ),

  nodeImageDelay: option(
    'nodeimage-creation-delay',
    durationSeconds,
    '30s',
    'Delay between the readiness of a node and its NodeImage',
    leading,
  ),
  imageTagTtl: option(
    'default-ttlseconds-for-always-nodeimage',
    secondsOfAMonth,
    '300',
    'Added to the time that tags of jobs of type Always stay in a NodeImage',
    leading,
  ),
  daemonConfigNamespace: option(
    'daemon-config-namespace',
    text,
    'kruise-daemon-config',
    'Namespace of the pull Secrets for daemons',
    {
      env: ['KRUISE_DAEMON_CONFIG_NS'],
      roles: ['watcher', 'daemon', 'all'],
    },
  ),

  webhookHost: option('webhook-host', text, undefined, 'Host of the webhook URL; absent: called by Service', {
    env: ['WEBHOOK_HOST'],
    roles: admission,
  }),
  webhookPort: option('webhook-port', port, '9876', 'Port of the admission and conversion webhooks', {
    env: ['WEBHOOK_PORT'],
    roles: admission,
  }),
  secretName: option(
    'webhook-secret-name',
    text,
    'kruise-webhook-certs',
    'Secret with the certificates of the webhook',
    {
      env: ['SECRET_NAME'],
      roles: admission,
    },
  ),
  clientCa: option(
    'client-ca',
    fileOrNone,
    '',
    'PEM file of the CAs of the clients that may call admission; empty: every client may',
    {
      roles: admission,
    },
  ),
  serviceName: option('webhook-service-name', text, 'kruise-webhook-service', 'Service of the webhook', {
    env: ['SERVICE_NAME'],
    roles: admission,
  }),
  renewBefore: option(
    'webhook-certs-renew-before',
    ageSeconds,
    '180d',
    'How long before their end certificates are renewed',
    {
      env: ['CERTS_RENEW_BEFORE'],
      roles: admission,
    },
  ),
  certLifetime: option('webhook-certs-lifetime', ageSeconds, '10y', 'How long new certificates are valid', {
    roles: admission,
  }),
  initializeTimeout: option(
    'webhook-initialize-timeout',
    durationSeconds,
    '60s',
    'Exits when not ready within this time',
    {
      roles: admission,
    },
  ),

  nodeName: option('node-name', text, undefined, 'Name of the Node of this daemon; required', {
    env: ['NODE_NAME'],
    ...onNodes,
  }),
  socketLocation: option('socket-location', text, '/hostvarrun', 'Directory of the runtime sockets', onNodes),
  socketFile: option(
    'socket-file',
    textOrNothing,
    '',
    'Runtime socket in --socket-location; empty: the known ones',
    onNodes,
  ),
  pullWorkers: option('max-workers-for-pull-image', wholeNumber, '-1', 'Image pulls at one time; below 0: 8', onNodes),
  pluginConfigFile: option(
    'plugin-config-file',
    file,
    '/kruise/CredentialProviderPlugin.yaml',
    'Configuration of credential provider plugins, in the format of the kubelet; may be absent',
    onNodes,
  ),
  pluginFolder: option(
    'plugin-bin-dir',
    text,
    '/kruise/plugins',
    'Directory of the credential provider plugins',
    onNodes,
  ),
  kubeletPluginConfigFile: option(
    'image-credential-provider-config',
    file,
    undefined,
    "--plugin-config-file by the kubelet's name; must exist",
    onNodes,
  ),
  kubeletPluginFolder: option(
    'image-credential-provider-bin-dir',
    text,
    undefined,
    "--plugin-bin-dir by the kubelet's name",
    onNodes,
  ),
  dockerConfigFile: option(
    'node-docker-config',
    file,
    undefined,
    "Registry credentials of the node, in the format of the kubelet's config.json",
    onNodes,
  ),
  daemonAddress: option('addr', listenAddress, ':10221', 'Serves /healthz, /readyz and /metrics', onNodes),
} as const;

/**
 * Flags of OpenKruise's manager and node agent that have no meaning here: accepted without effect, and named in the
 * log.
 */
export const ignoredFlags: readonly string[] = [
  ...['enable-pprof', 'pprof-addr', 'allow-privileged', 'sync-period', 'controller-cache-sync-timeout'],
  'expectation-timeout',
  ...['rate-limiter-base-delay', 'rate-limiter-max-delay', 'rate-limiter-qps', 'rate-limiter-bucket-size'],
  ...['protection-log-path', 'disable-no-deepcopy', 'ws-enabled-versioned-status', 'logging-format'],
  ...['assign-pods-by-scheduler', 'assign-bcj-pods-by-scheduler', 'cloneset-scaling-exclude-preparing-delete'],
  ...[
    'v',
    'vmodule',
    'logtostderr',
    'alsologtostderr',
    'log_dir',
    'log-dir',
    'log_file',
    'log-file',
    'stderrthreshold',
  ],
  ...['cloneset', 'statefulset', 'daemonset', 'broadcastjob', 'advancedcronjob', 'uniteddeployment', 'sidecarset']
    .concat('podunavailablebudget', 'workloadspread', 'resourcedistribution', 'persistentpodstate', 'podprobemarker')
    .concat('nodepodprobe', 'nodeimage', 'imagepulljob', 'sidecarterminator', 'crr')
    .map((kind) => `${kind}-workers`),
];

/** The environment variables of an option, in order of precedence. */
export function environmentOf(given: { readonly flag: string; readonly env: readonly string[] }): readonly string[] {
  return [`WINDLASS_${given.flag.replaceAll('-', '_').toUpperCase()}`, ...given.env];
}
