package chaos

func newProcesses(*stage) fleet { panic("processes: not built yet") }
